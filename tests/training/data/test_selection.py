"""Selection of trajectories, against hand-computed results and independent of their order."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.errors import ConfigError, TrainingError
from upturn.records import Observation, Origin, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.data.selection import Selection, check_top, jaccard_distance, select, written_ids
from upturn.training.selection_settings import SelectionSettings

ALL = SelectionSettings(threshold=1.0)


def _member(
    name: str,
    written: Sequence[int],
    reward: float | None = 1.0,
    *,
    turns: int = 1,
    task: str = "a",
    origin: Origin = "sampled",
) -> ScoredTrajectory:
    """All tokens are written in the first turn; the reward is on the last."""
    tokens = (1, 2, *written)
    spans = (WrittenSpan(0, 2, len(tokens)),) if written else ()
    trajectory = Trajectory(
        id=name,
        task_id=task,
        agent_version="nano@1",
        turns=(Turn(Observation(""), "", None),) * turns,
        final_observation=Observation(""),
        outcome="finished",
        origin=origin,
        rows=(TokenRow(tokens, spans, (-1.0,) * len(written) if origin == "sampled" else ()),),
    )
    return ScoredTrajectory(trajectory, None if reward is None else (*(0.0,) * (turns - 1), reward))


def _group(*members: ScoredTrajectory, task: str = "a") -> ScoredGroup:
    return ScoredGroup(Task(task, "", "", ""), members)


def _names(selection: Selection) -> list[str]:
    return [trajectory.id for trajectory in selection.selected]


def test_successes_are_selected_and_all_trajectories_counted() -> None:
    group = _group(
        _member("well", [3], 1.0),
        _member("badly", [4], 0.9),
        _member("same", [3], 1.0),
        _member("unknown", [5], None),
        _member("half known", [6], math.nan),
        _member("longer", [7, 7], 2.0, turns=2),
    )
    selection = select([group], replace(ALL, top=1))
    assert _names(selection) == ["longer"]
    assert (selection.failed, selection.unscorable, selection.duplicates, selection.surplus) == (1, 2, 1, 1)
    assert selection.unsolved == ()
    assert _names(select([group], ALL)) == ["longer", "same"]


def test_rendered_trajectories_are_selected_like_sampled_ones() -> None:
    selection = select([_group(_member("by rule", [3], origin="rendered"), _member("by model", [4]))], ALL)
    assert _names(selection) == ["by rule", "by model"]


def test_the_threshold_is_for_all_turns_together() -> None:
    member = _member("two halves", [3], turns=2)
    halves = replace(member, turn_rewards=(0.5, 0.5))
    assert _names(select([_group(halves)], ALL)) == ["two halves"]
    assert select([_group(halves)], replace(ALL, threshold=1.01)).failed == 1


def test_tasks_are_unsolved_if_trajectories_failed_not_if_none_was_scorable() -> None:
    failed = _group(_member("f", [3], 0.0), _member("g", [3], None), task="a")
    unscorable = _group(_member("u", [3], None, task="b"), task="b")
    empty = _group(task="c")
    solved_elsewhere = [
        _group(_member("d", [3], 0.0, task="d"), task="d"),
        _group(_member("e", [4], 1.0, task="d"), task="d"),
    ]
    selection = select([failed, unscorable, empty, *solved_elsewhere], ALL)
    assert selection.unsolved == (failed,)
    assert _names(selection) == ["e"]


def test_groups_of_one_task_count_as_one() -> None:
    groups = [_group(_member("x", [3])), _group(_member("y", [3]), _member("z", [4]))]
    selection = select(groups, replace(ALL, top=1))
    assert (len(selection.selected), selection.duplicates, selection.surplus) == (1, 1, 1)


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [("reward", ["rich", "brief"]), ("shortest", ["brief", "long"])],
)
def test_the_preference_decides_the_order(prefer: Any, expected: list[str]) -> None:
    """Fewest turns come before fewest tokens: ``long`` has more tokens than ``rich`` and a turn less."""
    group = _group(
        _member("rich", [3, 4], 3.0, turns=2),
        _member("brief", [5], 2.0, turns=1),
        _member("long", [6, 6, 6], 1.0, turns=1),
    )
    assert _names(select([group], replace(ALL, top=2, prefer=prefer))) == expected


def test_diverse_takes_the_best_then_always_the_farthest() -> None:
    """Worked by hand. ``best`` has the runs 11, 12, 13, 11 12, 12 13 and 11 12 13. ``near`` has six as well,
    three of them the same; ``between`` has 13, 17 and 13 17, one of them the same; ``far`` has none of them."""
    group = _group(
        _member("near", [11, 12, 19], 1.0),
        _member("best", [11, 12, 13], 2.0),
        _member("far", [14, 15, 16], 1.0),
        _member("between", [13, 17], 1.0),
    )
    assert jaccard_distance((11, 12, 13), (11, 12, 19)) == pytest.approx(1 - 3 / 9)
    assert jaccard_distance((11, 12, 13), (13, 17)) == pytest.approx(1 - 1 / 8)
    chosen = [_names(select([group], replace(ALL, top=top, prefer="diverse"))) for top in (1, 2, 3)]
    assert chosen == [["best"], ["best", "far"], ["best", "far", "between"]]


sequences = st.lists(st.integers(3, 6), max_size=6).map(tuple)


@given(sequences, sequences, sequences)
def test_jaccard_distance_is_a_metric(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    assert 0 <= jaccard_distance(a, b) == jaccard_distance(b, a) <= 1
    assert jaccard_distance(a, a) == 0
    assert jaccard_distance(a, c) <= jaccard_distance(a, b) + jaccard_distance(b, c) + 1e-12


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(3, 5), min_size=1, max_size=3),
            st.sampled_from([None, 0.0, 1.0, 2.0]),
            st.integers(1, 2),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["reward", "shortest", "diverse"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_order_of_trajectories_changes_nothing(drawn: Any, prefer: Any, is_distinct: bool, rng: Any) -> None:
    chosen = SelectionSettings(1.0, top=2, prefer=prefer, distinct=is_distinct)
    members = [
        _member(str(place), written, reward, turns=turns) for place, (written, reward, turns) in enumerate(drawn)
    ]
    selection = select([_group(*members)], chosen)
    shuffled = list(members)
    rng.shuffle(shuffled)
    again = select([_group(*shuffled)], chosen)
    assert _names(again) == _names(selection)
    assert again[2:] == selection[2:]
    assert len(selection.selected) + sum(selection[2:]) == len(members)
    if is_distinct:
        assert len({written_ids(trajectory) for trajectory in selection.selected}) == len(selection.selected)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_mean_reward_of_the_best_of_k_matches_order_statistics(k: int) -> None:
    """Over all outcomes of k fair draws from {.2, .5, .6, 1}: E[max] = Σᵢ rᵢ ((i/4)ᵏ − ((i−1)/4)ᵏ)."""
    levels = (0.2, 0.5, 0.6, 1.0)
    chosen = SelectionSettings(threshold=0.0, top=1)
    earned = []
    for draws in itertools.product(levels, repeat=k):
        members = [_member(str(place), [3 + place], reward) for place, reward in enumerate(draws)]
        (best,) = _names(select([_group(*members)], chosen))
        earned.append(draws[int(best)])
    expected = sum(r * ((i / 4) ** k - ((i - 1) / 4) ** k) for i, r in enumerate(levels, start=1))
    assert math.fsum(earned) / len(earned) == pytest.approx(expected)


def test_the_share_of_tasks_solved_by_one_of_k_matches_theory() -> None:
    """Over all outcomes of 4 draws that succeed 1 time in 3: 1 − (2/3)⁴ of them have something to keep."""
    outcomes = list(itertools.product((1.0, 0.0, 0.0), repeat=4))
    solved = [
        bool(select([_group(*(_member(str(i), [3], r) for i, r in enumerate(draws)))], ALL).selected)
        for draws in outcomes
    ]
    assert sum(solved) / len(solved) == pytest.approx(1 - (2 / 3) ** 4)


def test_a_limit_per_task_keeps_easy_tasks_from_dominating() -> None:
    easy = _group(*(_member(f"e{place}", [10 + place]) for place in range(8)), task="a")
    hard = _group(_member("h", [3], task="b"), *(_member(f"f{n}", [4], 0.0, task="b") for n in range(7)), task="b")
    shares = [
        _names(select([easy, hard], chosen)).count("h") / len(select([easy, hard], chosen).selected)
        for chosen in (ALL, replace(ALL, top=1))
    ]
    assert shares == [pytest.approx(1 / 9), 0.5]


def test_turns_in_several_rows_are_read_in_order(make_trajectory: Callable[..., Trajectory]) -> None:
    first = TokenRow((1, 5, 6, 9, 7), (WrittenSpan(0, 1, 3), WrittenSpan(2, 4, 5)), (-1.0,) * 3)
    second = TokenRow((1, 2, 8), (WrittenSpan(1, 2, 3),), (-1.0,), "history_changed")
    assert written_ids(replace(make_trajectory(), rows=(first, second))) == (5, 6, 8, 7)


def test_unusable_trajectories_and_an_unused_top_are_refused() -> None:
    with pytest.raises(TrainingError, match="'empty' succeeded but has no written tokens"):
        select([_group(_member("empty", []))], ALL)
    pair = _group(_member("x", [3]), _member("y", [4]))
    check_top([pair], replace(ALL, top=2))
    check_top([pair, _group(_member("z", [5]))], replace(ALL, top=3))
    with pytest.raises(TrainingError, match=r"top=3 would do nothing with at most 2 trajectories per task"):
        check_top([pair], replace(ALL, top=3))
    with pytest.raises(ConfigError, match=r"prefer='diverse' would do nothing with top=None"):
        SelectionSettings(prefer="diverse")
    with pytest.raises(ConfigError) as caught:
        SelectionSettings(threshold=math.nan, top=0)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    "changes",
    [{"threshold": 1.5}, {"top": 1}, {"top": 2, "prefer": "shortest"}, {"distinct": False}],
    ids=["threshold", "top", "prefer", "distinct"],
)
def test_every_setting_changes_the_selection(changes: dict[str, Any]) -> None:
    group = _group(
        _member("a", [3, 3], 2.0), _member("b", [3, 3], 2.0), _member("c", [4], 1.0), _member("d", [5, 5], 2.0)
    )
    before = replace(ALL, top=2) if "prefer" in changes else ALL
    assert _names(select([group], before)) != _names(select([group], replace(before, **changes)))


def test_a_failure_is_no_success_whatever_its_reward() -> None:
    """A verifier's gate is no weight that rewards could buy back."""
    well, gated = _member("well", [3], 1.0), replace(_member("gated", [4], 1.0), succeeded=False)
    selection = select([_group(well, gated, replace(_member("unsaid", [5], 1.0), succeeded=None))], ALL)
    assert sorted(_names(selection)) == ["unsaid", "well"]
    assert selection.failed == 1
