"""Length and repetition rewards: TRL's values, and properties for all lengths."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn import rewards
from upturn.rewards.budget import cosine_length, lcpo_exact, lcpo_max, repetition, soft_overlong, within


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


def test_lcpo_and_within_by_hand() -> None:
    """L1 with α = 3e-4 and n* = 1000; the values of LCPO-Max are .5, .2 and .8 at 1000, 2000 and 0 tokens."""
    lengths = (0, 1000, 2000, 4000)
    assert [lcpo_max(n, target=1000, is_correct=True) for n in lengths] == pytest.approx([0.8, 0.5, 0.2, 0.0])
    assert [lcpo_max(n, target=1000, is_correct=False) for n in lengths] == [0.0] * 4
    assert [lcpo_exact(n, target=1000, is_correct=True) for n in lengths] == pytest.approx([0.7, 1.0, 0.7, 0.1])
    assert lcpo_exact(2000, target=1000, is_correct=False) == pytest.approx(-0.3)
    assert lcpo_max(1000, target=1000, is_correct=True, alpha=1.0, delta=1.0) == 1.0
    assert [within(n, limit=1000, is_correct=True) for n in lengths] == [1.0, 1.0, 0.0, 0.0]
    assert within(1, limit=1000, is_correct=False) == 0.0


@given(st.integers(0, 9000), st.integers(0, 9000), st.integers(1, 9000))
def test_lcpo_max_never_pays_for_length(first: int, second: int, target: int) -> None:
    short, long = sorted((first, second))
    rewards_of = [lcpo_max(length, target=target, is_correct=True) for length in (short, long)]
    assert 1 >= rewards_of[0] >= rewards_of[1] >= 0


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="LCPO needs target > 0"):
        lcpo_max(1, target=0, is_correct=True)
    with pytest.raises(ValueError, match=r"delta in \[0, 1\], got 2"):
        lcpo_max(1, target=1, is_correct=True, delta=2)
    with pytest.raises(ValueError, match="within needs limit > 0"):
        within(1, limit=0, is_correct=True)
    with pytest.raises(ValueError, match="0 < buffer < limit"):
        soft_overlong(1, limit=10, buffer=10)
    with pytest.raises(ValueError, match="limit > 0"):
        cosine_length(1, limit=0, is_correct=True)
    with pytest.raises(ValueError, match="size 1 or more, got 0"):
        repetition([1], size=0)


def test_every_function_is_documented() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = "".join((docs / f"{name}.md").read_text(encoding="utf-8") for name in ("environments", "evaluation"))
    modules = ("budget", "part", "rubric")
    public = [
        name for name in rewards.__all__ if getattr(getattr(rewards, name), "__module__", "").endswith(modules)
    ]
    assert [name for name in public if f"`{name}`" not in page] == []
