"""Length and repetition rewards: TRL's values, and properties for all lengths."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn import rewards
from upturn.rewards.budget import cosine_length, repetition, soft_overlong


@pytest.mark.parametrize(("length", "expected"), [(50, 0.0), (80, 0.0), (90, -0.5), (100, -1.0), (110, -1.0)])
def test_soft_overlong_matches_trl(length: int, expected: float) -> None:
    """TRL get_soft_overlong_punishment, values of its test: L = 100, c = 20."""
    assert soft_overlong(length, limit=100, buffer=20) == expected


def test_cosine_matches_trl() -> None:
    """TRL get_cosine_scaled_reward, from its docstring: half of the length gives the middle of the bounds."""
    assert cosine_length(50, limit=100, is_correct=True) == pytest.approx(0.75)
    assert cosine_length(50, limit=100, is_correct=False) == pytest.approx(-0.75)


def test_short_is_best_when_correct_and_worst_when_wrong() -> None:
    assert [cosine_length(item, limit=100, is_correct=True) for item in (0, 100, 900)] == [1.0, 0.5, 0.5]
    assert [cosine_length(item, limit=100, is_correct=False) for item in (0, 100, 900)] == [-1.0, -0.5, -0.5]


@pytest.mark.parametrize(
    ("tokens", "size", "expected"),
    [
        ([5] * 5, 2, -0.75),
        ([1, 2, 1, 2, 1, 2], 2, -0.6),
        ([1, 2, 3, 1, 2, 3], 3, -0.25),
        ([1, 2, 3], 2, 0.0),
        ([1], 2, 0.0),
        ([], 1, 0.0),
    ],
)
def test_repetition_matches_trl(tokens: list[int], size: int, expected: float) -> None:
    """TRL get_repetition_penalty_reward, values of its tests, with a penalty of −1."""
    assert repetition(tokens, size=size) == pytest.approx(expected)


@given(lengths=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_longer_never_earns_more_than_shorter_when_correct(lengths: tuple[int, int]) -> None:
    short, long = sorted(lengths)
    assert soft_overlong(long, limit=100, buffer=20) <= soft_overlong(short, limit=100, buffer=20) <= 0
    correct = [cosine_length(item, limit=100, is_correct=True) for item in (short, long)]
    wrong = [cosine_length(item, limit=100, is_correct=False) for item in (short, long)]
    assert correct[1] <= correct[0]
    assert wrong[1] >= wrong[0]
    assert min(correct) > max(wrong)


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="0 < buffer < limit"):
        soft_overlong(1, limit=10, buffer=10)
    with pytest.raises(ValueError, match="limit > 0"):
        cosine_length(1, limit=0, is_correct=True)
    with pytest.raises(ValueError, match="size 1 or more, got 0"):
        repetition([1], size=0)


def test_every_function_is_documented_on_the_environments_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    modules = ("budget", "rubric")
    public = [name for name in rewards.__all__ if getattr(rewards, name).__module__.endswith(modules)]
    assert [name for name in public if f"`{name}`" not in page] == []
