"""The baselines of sampling: ``generate`` of transformers, called once per turn for all rollouts.

They differ in the cache. ``whole``: none, the whole history is computed each time, as most trainers do. ``growing``
and ``allocated``: the cache of the previous turn is kept; one grows, the other is allocated beforehand. ``shared``:
a growing one, where each task's prompt is computed once and its cache repeated for the rollouts of the group.
Log-probs are not computed in timed steps, as they would cost extra.

Actions end at lengths drawn beforehand, by a stopping criterion per row; a call ends with the longest action, as
for a batch of real agents. Tokens after a row's end are padding: masked where the cache is kept, dropped where the
whole history is computed again.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    GenerationConfig,
    PreTrainedModel,
    StaticCache,
    StoppingCriteria,
    StoppingCriteriaList,
)

from benchmarks.implementations.sampling import SampledRollout, prepare, score, scored_indices
from benchmarks.machine import now
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Conversations
from upturn.training import IntArray

Cache: TypeAlias = Literal["whole", "growing", "allocated", "shared"]


class _StopAtLengths(StoppingCriteria):
    """Stops each row after its number of tokens."""

    def __init__(self, start: int, lengths_E: Tensor) -> None:
        self._ends_E = start + lengths_E

    def __call__(self, input_ids: Tensor, *_: Any, **__: Any) -> Any:  # Any: as in the base class
        return self._ends_E <= input_ids.shape[1]


class _Turn(NamedTuple):
    ids: Tensor
    """``(E, L + N)``: history and written tokens, rows padded at their ends."""
    logprobs: Tensor | None
    """``(E, N)``; None = not computed."""


class GenerateSampler:
    """One model; each step starts with an empty cache."""

    def __init__(self, model: PreTrainedModel, conversations: Conversations, cache: Cache) -> None:
        self._cache = cache
        self._model: Any = model
        self._conversations = conversations
        self._device = model.device
        self._prompts = torch.from_numpy(conversations.prompts()).to(self._device)
        self._observations = torch.from_numpy(conversations.observations()).to(self._device)
        self._lengths = torch.from_numpy(conversations.lengths()).to(self._device)

    def step(self) -> dict[str, float]:
        """Seconds of all conversations from their prompts to the end of the last turn."""
        started = now(self._device.type)
        self._sample(has_logprobs=False)
        return {"seconds": now(self._device.type) - started}

    def sample(self) -> list[SampledRollout]:
        """All rollouts, with the log-probs of the passes that wrote them."""
        return self._sample(has_logprobs=True)

    def _sample(self, *, has_logprobs: bool) -> list[SampledRollout]:
        if self._cache == "whole":
            return self._sample_without_cache(has_logprobs)
        return self._sample_with_cache(has_logprobs)

    def _sample_without_cache(self, has_logprobs: bool) -> list[SampledRollout]:
        histories = list(self._prompts.cpu().numpy())
        observations = self._observations.cpu().numpy()
        positions: list[list[int]] = [[] for _ in histories]
        logprobs: list[list[float]] = [[] for _ in histories]
        for turn, lengths_E in enumerate(self._lengths):
            ids, mask = (tensor.to(self._device) for tensor in _left_padded(histories))
            generation = self._generate(ids, mask, lengths_E, has_logprobs=has_logprobs)
            new = generation.ids[:, ids.shape[1] :].cpu().numpy()
            for row, count in enumerate(lengths_E.tolist()):
                start = len(histories[row])
                positions[row] += range(start, start + count)
                if generation.logprobs is not None:
                    logprobs[row] += generation.logprobs[row, :count].tolist()
                histories[row] = np.concatenate([histories[row], new[row, :count], observations[turn, row]])
        return [
            SampledRollout(history.tolist(), row_positions, row_logprobs)
            for history, row_positions, row_logprobs in zip(histories, positions, logprobs, strict=True)
        ]

    def _sample_with_cache(self, has_logprobs: bool) -> list[SampledRollout]:
        ids, cache = self._prompts, self._new_cache()
        mask = torch.ones_like(ids)
        is_written = torch.zeros_like(ids, dtype=torch.bool)
        logprobs: list[Tensor] = []
        for observation, lengths_E in zip(self._observations, self._lengths, strict=True):
            generation = self._generate(ids, mask, lengths_E, cache=cache, has_logprobs=has_logprobs)
            steps = torch.arange(generation.ids.shape[1] - ids.shape[1], device=self._device)
            is_real = steps < lengths_E[:, None]
            ids = torch.cat([generation.ids, observation], dim=1)
            mask = torch.cat([mask, is_real.long(), torch.ones_like(observation)], dim=1)
            is_written = torch.cat([is_written, is_real, torch.zeros_like(observation, dtype=torch.bool)], dim=1)
            if generation.logprobs is not None:
                logprobs += [generation.logprobs, torch.zeros_like(observation, dtype=generation.logprobs.dtype)]
        if not has_logprobs:
            return []
        recorded = torch.cat([torch.zeros_like(self._prompts, dtype=torch.float32), *logprobs], dim=1)
        ids, mask, is_written, recorded = (tensor.cpu() for tensor in (ids, mask, is_written, recorded))
        return [
            SampledRollout(
                row[real].tolist(), torch.nonzero(written[real])[:, 0].tolist(), row_logprobs[written].tolist()
            )
            for row, real, written, row_logprobs in zip(ids, mask.bool(), is_written, recorded, strict=True)
        ]

    def _new_cache(self) -> DynamicCache | StaticCache:
        config = self._model.config
        if self._cache == "allocated":
            return StaticCache(config=config, max_cache_len=self._conversations.context)
        cache = DynamicCache(config=config)
        if self._cache == "shared":
            first = self._prompts[:: self._conversations.group_size, :-1]  # generate reads the last token
            with torch.no_grad():
                self._model(input_ids=first, past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(self._conversations.group_size)
        return cache

    def _generate(
        self,
        ids: Tensor,
        mask: Tensor,
        lengths_E: Tensor,
        *,
        cache: DynamicCache | StaticCache | None = None,
        has_logprobs: bool,
    ) -> _Turn:
        longest, count = int(lengths_E.max()), ids.shape[1]
        config = GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=longest,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=has_logprobs,
        )
        is_even = int(lengths_E.min()) == longest
        criteria = None if is_even else StoppingCriteriaList([_StopAtLengths(count, lengths_E)])
        options = {} if cache is None else {"past_key_values": cache}
        output = self._model.generate(
            ids, attention_mask=mask, generation_config=config, stopping_criteria=criteria, **options
        )
        if not has_logprobs:
            return _Turn(output.sequences, None)
        logprobs = torch.stack(output.logits, dim=1).float().log_softmax(-1)
        return _Turn(output.sequences, logprobs.gather(2, output.sequences[:, count:, None])[:, :, 0])


def serve_sampling(channel: Channel, settings: Settings) -> None:
    """Sends the scores of its tokens, and then timed steps. ``cache`` is one of the settings."""
    model, conversations = prepare(settings)
    cache: Any = settings["cache"]  # JSON from our own parent process
    channel.mark_baseline(model.device.type)
    sampler = GenerateSampler(model, conversations, cache)
    rollouts = sampler.sample()
    scores = score(model, [rollouts[index] for index in scored_indices(conversations)])
    serve_steps(channel, scores._asdict(), sampler.step)


def _left_padded(histories: list[IntArray]) -> tuple[Tensor, Tensor]:
    """Ids and mask ``(E, L)``."""
    longest = max(map(len, histories))
    ids = np.zeros((len(histories), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, history in enumerate(histories):
        ids[row, longest - len(history) :] = history
        mask[row, longest - len(history) :] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)
