"""The other sides of a sampling comparison: ``generate`` of transformers, called once a turn for all attempts.

``whole``: on the whole history each time, as most trainers call it. ``growing`` and ``allocated``: with the cache
that the turn before left, as a careful user calls it; one grows, one is allocated beforehand. ``shared``: a growing
one, and each task's prompt is computed once and its cache repeated for the attempts, as a very careful user might.
None asks for log-probs in timed steps, which would cost extra.

Attempts end their actions at lengths drawn beforehand, through a stopping criterion for each row; the call ends
with the longest, as for a batch of real agents. What stands beyond a row's end is padding: it is masked from
then on where the cache is kept, and left out where the history is given anew.
"""

import time
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

from benchmarks.implementations.sampling import Written, prepare, score, scored
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Conversations
from upturn.training import IntArray

How: TypeAlias = Literal["whole", "growing", "allocated", "shared"]


class _EndAt(StoppingCriteria):
    """A row is done when it has written its number of tokens."""

    def __init__(self, before: int, lengths_E: Tensor) -> None:
        self._ends_E = before + lengths_E

    def __call__(self, input_ids: Tensor, *_: Any, **__: Any) -> Any:  # Any: as the base class has it
        return self._ends_E <= input_ids.shape[1]


class _Turn(NamedTuple):
    ids: Tensor
    """``(E, L + N)``: what was given and what was written, the rows padded at their ends."""
    logprobs: Tensor | None
    """``(E, N)``; None = not asked for."""


class Generating:
    """One model; each step starts with nothing cached."""

    def __init__(self, model: PreTrainedModel, conversations: Conversations, how: How) -> None:
        self.how = how
        self._model: Any = model
        self._conversations = conversations
        self._prompts = torch.from_numpy(conversations.prompts())
        self._observations = torch.from_numpy(conversations.observations())
        self._lengths = torch.from_numpy(conversations.lengths())

    def step(self) -> dict[str, float]:
        """All conversations from their prompts to the end of the last turn."""
        started = time.perf_counter()
        self._run(is_scored=False)
        return {"seconds": time.perf_counter() - started}

    def attempts(self) -> list[Written]:
        """What was written, attempt by attempt, with the log-probs of the passes that wrote it."""
        return self._run(is_scored=True)

    def _run(self, *, is_scored: bool) -> list[Written]:
        return self._run_whole(is_scored) if self.how == "whole" else self._run_kept(is_scored)

    def _run_whole(self, is_scored: bool) -> list[Written]:
        histories = list(self._prompts.numpy())
        positions: list[list[int]] = [[] for _ in histories]
        logprobs: list[list[float]] = [[] for _ in histories]
        for turn, lengths_E in enumerate(self._lengths):
            ids, mask = _left_padded(histories)
            made = self._turn(ids, mask, lengths_E, is_scored=is_scored)
            new = made.ids[:, ids.shape[1] :].numpy()
            for row, count in enumerate(lengths_E.tolist()):
                start = len(histories[row])
                positions[row] += range(start, start + count)
                if made.logprobs is not None:
                    logprobs[row] += made.logprobs[row, :count].tolist()
                observed = self._observations[turn, row].numpy()
                histories[row] = np.concatenate([histories[row], new[row, :count], observed])
        return [Written(*parts) for parts in zip(map(_listed, histories), positions, logprobs, strict=True)]

    def _run_kept(self, is_scored: bool) -> list[Written]:
        ids, cache = self._prompts, self._cache()
        mask = torch.ones_like(ids)
        is_written = torch.zeros_like(ids, dtype=torch.bool)
        logprobs: list[Tensor] = []
        for observed, lengths_E in zip(self._observations, self._lengths, strict=True):
            made = self._turn(ids, mask, lengths_E, cache=cache, is_scored=is_scored)
            steps = torch.arange(made.ids.shape[1] - ids.shape[1])
            is_real = steps < lengths_E[:, None]
            ids = torch.cat([made.ids, observed], dim=1)
            mask = torch.cat([mask, is_real.long(), torch.ones_like(observed)], dim=1)
            is_written = torch.cat([is_written, is_real, torch.zeros_like(observed, dtype=torch.bool)], dim=1)
            if made.logprobs is not None:
                logprobs += [made.logprobs, torch.zeros_like(observed, dtype=made.logprobs.dtype)]
        if not is_scored:
            return []
        recorded = torch.cat([torch.zeros_like(self._prompts, dtype=torch.float32), *logprobs], dim=1)
        kept = [row.bool() for row in mask]
        return [
            Written(row[at].tolist(), torch.nonzero(wrote[at])[:, 0].tolist(), given[wrote].tolist())
            for row, at, wrote, given in zip(ids, kept, is_written, recorded, strict=True)
        ]

    def _cache(self) -> DynamicCache | StaticCache:
        config = self._model.config
        if self.how == "allocated":
            return StaticCache(config=config, max_cache_len=self._conversations.context)
        cache = DynamicCache(config=config)
        if self.how == "shared":
            first = self._prompts[:: self._conversations.attempts, :-1]  # the last token is read by generate
            with torch.no_grad():
                self._model(input_ids=first, past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(self._conversations.attempts)
        return cache

    def _turn(
        self,
        ids: Tensor,
        mask: Tensor,
        lengths_E: Tensor,
        *,
        cache: DynamicCache | StaticCache | None = None,
        is_scored: bool,
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
            output_logits=is_scored,
        )
        ends = None if int(lengths_E.min()) == longest else StoppingCriteriaList([_EndAt(count, lengths_E)])
        given = {} if cache is None else {"past_key_values": cache}
        made = self._model.generate(
            ids, attention_mask=mask, generation_config=config, stopping_criteria=ends, **given
        )
        if not is_scored:
            return _Turn(made.sequences, None)
        logprobs = torch.stack(made.logits, dim=1).log_softmax(-1)
        return _Turn(made.sequences, logprobs.gather(2, made.sequences[:, count:, None])[:, :, 0])


def generate_side(channel: Channel, settings: Settings) -> None:
    """``how`` among the settings. Answers how well its tokens agree with a dense pass, then makes timed steps."""
    model, conversations = prepare(settings)
    chosen: Any = settings["how"]  # JSON from our own parent
    channel.mark_baseline()
    generating = Generating(model, conversations, chosen)
    attempts = generating.attempts()
    found = score(model, [attempts[index] for index in scored(conversations)])
    serve_steps(channel, found._asdict(), generating.step)


def _left_padded(histories: list[IntArray]) -> tuple[Tensor, Tensor]:
    """Ids and mask ``(E, L)``."""
    longest = max(map(len, histories))
    ids = np.zeros((len(histories), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, history in enumerate(histories):
        ids[row, longest - len(history) :] = history
        mask[row, longest - len(history) :] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _listed(history: IntArray) -> list[int]:
    found: list[int] = history.tolist()
    return found
