"""A tiny model that plays a toy: attempts in groups, what its policy is worth exactly, perfect demonstrations."""

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

LONGEST = 32


def toy_model(toy: Toy, seed: int) -> PreTrainedModel:
    """Fresh weights: a Qwen2 of some 20 thousand parameters, nearly uniform over the toy's tokens."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=toy.vocabulary,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=64,
            max_position_embeddings=LONGEST,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


class Player:
    """Plays with the model's weights as they are; draws depend on (seed, iteration, round) only."""

    def __init__(self, toy: Toy, model: PreTrainedModel, *, attempts: int, seed: int) -> None:
        self.toy = toy
        self.model = model
        self.attempts = attempts
        self.seed = seed
        self.tokens = 0
        """Sampled so far."""

    def collect(self, iteration: int) -> list[ScoredGroup]:
        """A group of attempts at each task."""
        return self.refill(iteration, 0)

    def refill(self, iteration: int, attempt: int) -> list[ScoredGroup]:
        """The same once more, for round ``attempt`` of an iteration."""
        return self.play(self.toy.tasks, iteration, attempt)

    def play(
        self, tasks: Sequence[Task], iteration: int, attempt: int = 0, *, hints: Sequence[Sequence[int]] = ()
    ) -> list[ScoredGroup]:
        """Groups at these tasks; ``hints``: of each task, tokens that are read before its opening."""
        names = [task.id for task in tasks for _ in range(self.attempts)]
        before = [tuple(hint) for hint in hints for _ in range(self.attempts)] or [()] * len(names)
        key = f"{iteration}.{attempt}"
        version = weights_hash(self.model)
        drawn = self._drawn(names, before, np.random.default_rng([self.seed, iteration, attempt]))
        members = [
            ScoredTrajectory(
                self._trajectory(f"{key}/{name}/{place}", name, each, hint=before[place], version=version),
                self.toy.rewards(name, each.written),
            )
            for place, (name, each) in enumerate(zip(names, drawn, strict=True))
        ]
        size = self.attempts
        return [
            ScoredGroup(task, tuple(members[place * size : (place + 1) * size])) for place, task in enumerate(tasks)
        ]

    @torch.no_grad()
    def worth(self) -> float:
        """The exact expected reward of the policy, over the tasks alike; the optimum is 1."""
        toy = self.toy
        ways = [(name, each) for name in toy.openings for each in toy.earnings[name]]
        rows = torch.tensor([toy.tokens(name, each.written) for name, each in ways])
        logits: Tensor = self.model(rows).logits
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, rows[:, 1:, None])[..., 0]
        total = 0.0
        for place, (name, each) in enumerate(ways):
            found = sum(float(logprobs[place, start - 1 : stop - 1].sum()) for start, stop in toy.spans(name))
            total += float(np.exp(found)) * sum(each.rewards)
        return total / len(toy.openings)

    def demonstrations(self, tasks: Sequence[Task] | None = None) -> list[Trajectory]:
        """The best attempt at each task (None = at all), as somebody else's work: no log-probs."""
        chosen = self.toy.tasks if tasks is None else tasks
        return [
            self.shown(task.id, self.toy.best(task.id).written, place=place) for place, task in enumerate(chosen)
        ]

    def shown(
        self, task: str, written: Sequence[Sequence[int]], *, hint: tuple[int, ...] = (), place: int = 0
    ) -> Trajectory:
        """An attempt with these tokens by turn, as somebody else's work; ``place`` makes its id unique."""
        drawn = _Drawn(tuple(map(tuple, written)), ())
        return self._trajectory(f"shown/{place}", task, drawn, hint=hint, origin="rendered")

    @torch.no_grad()
    def _drawn(
        self, names: Sequence[str], before: Sequence[tuple[int, ...]], rng: np.random.Generator
    ) -> list["_Drawn"]:
        """What the model writes in each attempt. All of one call are equally long at any time."""
        toy = self.toy
        rows = [[*hint, *toy.openings[name]] for name, hint in zip(names, before, strict=True)]
        turns: list[list[tuple[int, ...]]] = [[] for _ in names]
        logprobs: list[list[float]] = [[] for _ in names]
        for turn in range(toy.turns):
            written = np.zeros((len(names), toy.written), dtype=np.int64)
            for place in range(toy.written):
                logits: Tensor = self.model(torch.tensor(rows)).logits[:, -1]
                chosen, logs = _draw(logits, rng)
                written[:, place] = chosen
                for row, own, token, log in zip(rows, logprobs, chosen.tolist(), logs.tolist(), strict=True):
                    row.append(token)
                    own.append(log)
            for index, name in enumerate(names):
                turns[index].append(tuple(written[index].tolist()))
                if turn + 1 < toy.turns:
                    rows[index] += toy.shown(name, turns[index][-1])
        self.tokens += len(names) * toy.turns * toy.written
        return [_Drawn(tuple(each), tuple(logs)) for each, logs in zip(turns, logprobs, strict=True)]

    def _trajectory(
        self,
        key: str,
        name: str,
        drawn: "_Drawn",
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
        row = TokenRow((*hint, *toy.tokens(name, drawn.written)), spans, drawn.logprobs)
        return Trajectory(
            id=key,
            task_id=name,
            agent_version="toy@1",
            turns=tuple(Turn(Observation(""), " ".join(map(str, turn)), None) for turn in drawn.written),
            final_observation=Observation(""),
            outcome="finished",
            origin=origin,
            rows=(row,),
            temperature=1.0 if origin == "sampled" else None,
            model_version=version,
        )


class _Drawn(NamedTuple):
    """What one attempt wrote."""

    written: tuple[tuple[int, ...], ...]
    """By turn."""
    logprobs: tuple[float, ...]
    """Of all tokens in order; empty where nobody sampled them."""


class _Draws(NamedTuple):
    """One token for each row."""

    ids: IntArray
    """``(B,)``"""
    logprobs: NDArray[np.float64]
    """``(B,)``"""


def _draw(logits: Tensor, rng: np.random.Generator) -> _Draws:
    """From each row of ``(B, V)``."""
    logs: NDArray[np.float64] = logits.double().log_softmax(-1).numpy()
    below = np.exp(logs).cumsum(axis=1)
    ids = (below < rng.random(len(logs))[:, None] * below[:, -1:]).sum(axis=1)
    return _Draws(ids, logs[np.arange(len(logs)), ids])
