"""Tiny models and hand-made rollouts for the tests of training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.config import OptimiserSettings
from upturn.records import Observation, Origin, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import RewardComponent, ScoredGroup, ScoredTrajectory


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are slower on two threads; tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _tiny_model(seed: int = 0, *, layers: int = 1, vocabulary: int = 20) -> PreTrainedModel:
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocabulary,
            hidden_size=32,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=64,
            max_position_embeddings=32,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


@pytest.fixture
def tiny_model() -> Callable[..., PreTrainedModel]:
    """A Qwen2 of 12 thousand parameters, by seed."""
    return _tiny_model


def _trajectory(
    tokens: Sequence[int] = (1, 5, 2, 7),
    spans: Sequence[tuple[int, int, int]] = ((0, 3, 4),),
    *,
    name: str = "t",
    task: str = "task",
    logprobs: Sequence[float] | None = None,
    turns: int | None = None,
    origin: Origin = "sampled",
    temperature: float | None = 1.0,
) -> Trajectory:
    """One row; spans are (turn, start, stop). Log-probs default to −1, turns to those of the spans."""
    written = sum(stop - start for _, start, stop in spans)
    chosen = (-1.0,) * written if logprobs is None else tuple(logprobs)
    row = TokenRow(
        tuple(tokens),
        tuple(WrittenSpan(turn, start, stop) for turn, start, stop in spans),
        chosen if origin == "sampled" else (),
    )
    count = max(turn for turn, _, _ in spans) + 1 if turns is None else turns
    return Trajectory(
        id=name,
        task_id=task,
        agent_version="nano@1",
        turns=(Turn(Observation(""), "", None),) * count,
        final_observation=Observation(""),
        outcome="finished",
        origin=origin,
        rows=(row,),
        temperature=temperature,
    )


@pytest.fixture
def make_trajectory() -> Callable[..., Trajectory]:
    """A trajectory from tokens and (turn, start, stop) spans."""
    return _trajectory


@pytest.fixture
def fast() -> OptimiserSettings:
    """An optimiser for toys."""
    return OptimiserSettings(learning_rate=1e-2)


@dataclass
class CopyTask:
    """Prompt ``[1, x, 2]``, one written token, reward 1 for x: the optimum is 1, guessing earns 1/20."""

    model: PreTrainedModel
    symbols: Sequence[int] = (3, 4, 5, 6)
    group_size: int = 12

    def collect(self, iteration: int) -> list[ScoredGroup]:
        """One group per symbol, sampled with the model's weights and a generator for the iteration."""
        return self.refill(iteration, 0)

    def refill(self, iteration: int, round_index: int) -> list[ScoredGroup]:
        """The groups of a further round, with another generator."""
        generator = torch.Generator().manual_seed(iteration + 100_000 * round_index)
        return [self._group(symbol, generator, f"{round_index}/{symbol}") for symbol in self.symbols]

    def score(self, _: int) -> float:
        """The exact expected reward."""
        return float(self._distribution()[range(len(self.symbols)), list(self.symbols)].mean())

    def _distribution(self) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.model(torch.tensor([[1, x, 2] for x in self.symbols])).logits
        return logits[:, -1].softmax(-1)

    def _group(self, symbol: int, generator: torch.Generator, name: str) -> ScoredGroup:
        probabilities = self._distribution()[list(self.symbols).index(symbol)]
        drawn = torch.multinomial(probabilities, self.group_size, replacement=True, generator=generator).tolist()
        members = [
            ScoredTrajectory(
                _trajectory(
                    (1, symbol, 2, token),
                    name=f"{name}/{number}",
                    task=f"copy {symbol}",
                    logprobs=(float(probabilities[token].log()),),
                ),
                (float(token == symbol),),
                components=(RewardComponent("copied", float(token == symbol), 1.0),),
            )
            for number, token in enumerate(drawn)
        ]
        return ScoredGroup(Task(f"copy {symbol}", "copy", "copy", "toy"), tuple(members))


@pytest.fixture
def copy_task() -> Callable[..., CopyTask]:
    """Makes a task that a policy gradient learns in seconds, for a model."""
    return CopyTask
