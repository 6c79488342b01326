"""A tiny model as the policy of a toy: groups of rollouts, its exact expected reward, and demonstrations."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from benchmarks.algorithms.toy import Toy
from upturn.models.engine import weights_hash
from upturn.records import Observation, Origin, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import IntArray, ScoredGroup, ScoredTrajectory

MAX_LENGTH = 32


def toy_model(toy: Toy, seed: int) -> PreTrainedModel:
    """New weights: a Qwen2 of some 20 thousand parameters, nearly uniform over the toy's tokens."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=toy.vocabulary,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=64,
            max_position_embeddings=MAX_LENGTH,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


class ToyPolicy:
    """Samples with the model's current weights; draws depend only on seed, iteration and round."""

    def __init__(self, toy: Toy, model: PreTrainedModel, *, group_size: int, seed: int) -> None:
        self.toy = toy
        self.model = model
        self.group_size = group_size
        self.seed = seed
        self.tokens = 0
        """Sampled so far."""

    def collect(self, iteration: int) -> list[ScoredGroup]:
        """One group per task."""
        return self.sample_groups(self.toy.tasks, iteration)

    def sample_groups(
        self, tasks: Sequence[Task], iteration: int, round_: int = 0, *, hints: Sequence[Sequence[int]] = ()
    ) -> list[ScoredGroup]:
        """Groups on these tasks; ``hints``: by task, tokens that precede its opening."""
        names = [task.id for task in tasks for _ in range(self.group_size)]
        prefixes = [tuple(hint) for hint in hints for _ in range(self.group_size)] or [()] * len(names)
        version = weights_hash(self.model)
        rollouts = self._sample(names, prefixes, np.random.default_rng([self.seed, iteration, round_]))
        members = [
            ScoredTrajectory(
                self._trajectory(
                    f"{iteration}.{round_}/{name}/{index}", name, rollout, hint=prefixes[index], version=version
                ),
                self.toy.rewards(name, rollout.written),
            )
            for index, (name, rollout) in enumerate(zip(names, rollouts, strict=True))
        ]
        size = self.group_size
        return [
            ScoredGroup(task, tuple(members[index * size : (index + 1) * size])) for index, task in enumerate(tasks)
        ]

    @torch.no_grad()
    def expected_reward(self) -> float:
        """The exact expected reward, averaged over the tasks; the optimum is 1."""
        toy = self.toy
        rewarded = [(name, rollout) for name in toy.openings for rollout in toy.rewarded[name]]
        rows = torch.tensor([toy.tokens(name, rollout.written) for name, rollout in rewarded])
        logits: Tensor = self.model(rows).logits
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, rows[:, 1:, None])[..., 0]
        total = 0.0
        for row, (name, rollout) in enumerate(rewarded):
            logprob = sum(float(logprobs[row, start - 1 : stop - 1].sum()) for start, stop in toy.spans(name))
            total += float(np.exp(logprob)) * sum(rollout.rewards)
        return total / len(toy.openings)

    def demonstrations(self, tasks: Sequence[Task] | None = None) -> list[Trajectory]:
        """The best rollout on each task (None = all tasks), without log-probs."""
        return [
            self.demonstration(task.id, self.toy.best(task.id).written, index=index)
            for index, task in enumerate(self.toy.tasks if tasks is None else tasks)
        ]

    def demonstration(
        self, task: str, written: Sequence[Sequence[int]], *, hint: tuple[int, ...] = (), index: int = 0
    ) -> Trajectory:
        """A trajectory with these tokens by turn, without log-probs; ``index`` makes its id unique."""
        rollout = _Rollout(tuple(map(tuple, written)), ())
        return self._trajectory(f"shown/{index}", task, rollout, hint=hint, origin="rendered")

    @torch.no_grad()
    def _sample(
        self, names: Sequence[str], prefixes: Sequence[tuple[int, ...]], rng: np.random.Generator
    ) -> list["_Rollout"]:
        """One rollout per name, all of the same length."""
        toy = self.toy
        rows = [[*prefix, *toy.openings[name]] for name, prefix in zip(names, prefixes, strict=True)]
        turns: list[list[tuple[int, ...]]] = [[] for _ in names]
        logprobs: list[list[float]] = [[] for _ in names]
        for turn in range(toy.turns):
            written = np.zeros((len(names), toy.written), dtype=np.int64)
            for position in range(toy.written):
                logits: Tensor = self.model(torch.tensor(rows)).logits[:, -1]
                ids, id_logprobs = _draw(logits, rng)
                written[:, position] = ids
                for index, (token, logprob) in enumerate(zip(ids.tolist(), id_logprobs.tolist(), strict=True)):
                    rows[index].append(token)
                    logprobs[index].append(logprob)
            for index, name in enumerate(names):
                turns[index].append(tuple(written[index].tolist()))
                if turn + 1 < toy.turns:
                    rows[index] += toy.observation(name, turns[index][-1])
        self.tokens += len(names) * toy.turns * toy.written
        return [_Rollout(tuple(turn), tuple(row)) for turn, row in zip(turns, logprobs, strict=True)]

    def _trajectory(
        self,
        key: str,
        name: str,
        rollout: "_Rollout",
        *,
        hint: tuple[int, ...] = (),
        origin: Origin = "sampled",
        version: str = "",
    ) -> Trajectory:
        toy = self.toy
        spans = tuple(
            WrittenSpan(turn, start + len(hint), stop + len(hint))
            for turn, (start, stop) in enumerate(toy.spans(name))
        )
        row = TokenRow((*hint, *toy.tokens(name, rollout.written)), spans, rollout.logprobs)
        return Trajectory(
            id=key,
            task_id=name,
            agent_version="toy@1",
            turns=tuple(Turn(Observation(""), " ".join(map(str, turn)), None) for turn in rollout.written),
            final_observation=Observation(""),
            outcome="finished",
            origin=origin,
            rows=(row,),
            temperature=1.0 if origin == "sampled" else None,
            model_version=version,
        )


class _Rollout(NamedTuple):
    """The written part of a rollout."""

    written: tuple[tuple[int, ...], ...]
    """Tokens by turn."""
    logprobs: tuple[float, ...]
    """Of all tokens in order; empty for demonstrations."""


def _draw(logits: Tensor, rng: np.random.Generator) -> tuple[IntArray, NDArray[np.float64]]:
    """A token and its log-prob for each row of ``(B, V)``; both ``(B,)``."""
    logprobs: NDArray[np.float64] = logits.double().log_softmax(-1).numpy()
    cumulative = np.exp(logprobs).cumsum(axis=1)
    ids = (cumulative < rng.random(len(logprobs))[:, None] * cumulative[:, -1:]).sum(axis=1)
    return ids, logprobs[np.arange(len(logprobs)), ids]
