"""Tiny models and hand-made rollouts for the tests of training."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.records import Observation, Origin, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import OptimiserSettings


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
    """One row; spans are (turn, start, stop). Log-probs default to −1 each, turns to those of the spans."""
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
