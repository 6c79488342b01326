"""Hinted trajectories are trained on without their hint, or not at all."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.agents.hint import Hint
from upturn.errors import TrainingError
from upturn.records import Observation, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, supervised_rows
from upturn.training.data.hinted_groups import HintedGroup, select_hinted
from upturn.training.selection_settings import HintSettings, SelectionSettings

Make = Callable[..., Trajectory]
HINT = Hint("", Observation(""), hinted_ids=(1, 8, 9, 5, 2), plain_ids=(1, 5, 2))
ALL = SelectionSettings()
ANSWER, REPAIR = HintSettings("rationalisation"), HintSettings("self_repair")


def _hinted(make: Make, *written: tuple[tuple[int, ...], float | None], task: str = "a") -> HintedGroup:
    members = tuple(
        ScoredTrajectory(
            make((1, 8, 9, 5, 2, *tokens), ((0, 5, 5 + len(tokens)),), name=f"{task}/{place}", task=task),
            None if reward is None else (reward,),
        )
        for place, (tokens, reward) in enumerate(written)
    )
    return HintedGroup(ScoredGroup(Task(task, "", "", ""), members), (HINT,) * len(members))


def _failed(task: str = "a") -> list[ScoredGroup]:
    return [ScoredGroup(Task(task, "", "", ""), ())]


def test_only_successes_without_a_mention_are_selected_and_no_hint_reaches_a_row(make_trajectory: Make) -> None:
    hinted = _hinted(
        make_trajectory, ((6, 7), 1.0), ((8, 9, 7), 1.0), ((4, 4), 0.0), ((8, 9), 0.0), ((3,), None), ((6, 7), 1.0)
    )
    selection = select_hinted([hinted], _failed(), ALL, ANSWER)
    assert selection.metrics == {"hinted_trajectories": 6, "rationalised": 1, "leaked": 1}
    (row,) = supervised_rows(selection.selected)
    assert row.token_ids.tolist() == [1, 5, 2, 6, 7]
    assert row.positions.tolist() == [3, 4]
    assert selection.selected[0].origin == "rendered"


def test_self_repair_has_its_own_metric(make_trajectory: Make) -> None:
    selection = select_hinted([_hinted(make_trajectory, ((6,), 1.0))], _failed(), ALL, REPAIR)
    assert selection.metrics == {"hinted_trajectories": 1, "repaired": 1, "leaked": 0}


def test_the_settings_choose_the_words_that_reveal_a_hint(make_trajectory: Make) -> None:
    hinted = _hinted(make_trajectory, ((6,), 1.0))
    (member,) = hinted.group.members
    turn = replace(member.trajectory.turns[0], text="as the oracle says")
    spoken = replace(member, trajectory=replace(member.trajectory, turns=(turn,)))
    hinted_group = replace(hinted, group=replace(hinted.group, members=(spoken,)))
    assert select_hinted([hinted_group], _failed(), ALL, ANSWER).metrics["leaked"] == 0
    settings = replace(ANSWER, mentions=("oracle",))
    assert select_hinted([hinted_group], _failed(), ALL, settings).metrics == {
        "hinted_trajectories": 1,
        "rationalised": 0,
        "leaked": 1,
    }


def test_hinted_trajectories_are_selected_by_the_same_settings(make_trajectory: Make) -> None:
    hinted = _hinted(make_trajectory, ((6, 7), 0.7), ((7, 6), 0.9), ((4,), 0.8))
    selection = select_hinted([hinted], _failed(), SelectionSettings(top=1, prefer="shortest"), ANSWER)
    assert [trajectory.id for trajectory in selection.selected] == ["a/2/without-hint"]


def test_no_hinted_groups_select_nothing() -> None:
    assert select_hinted([], [], ALL, ANSWER).metrics == {"hinted_trajectories": 0, "rationalised": 0, "leaked": 0}


def test_mismatched_hinted_groups_are_refused(make_trajectory: Make) -> None:
    hinted = _hinted(make_trajectory, ((6,), 1.0))
    with pytest.raises(TrainingError, match="task 'a' was sampled with a hint, but is not among the failed"):
        select_hinted([hinted], _failed("b"), ALL, ANSWER)
    with pytest.raises(TrainingError, match="has 1 trajectories and 0 hints"):
        select_hinted([replace(hinted, hints=())], _failed(), ALL, ANSWER)
    with pytest.raises(TrainingError, match="have the id 'a/0'"):
        select_hinted([hinted, hinted], _failed(), ALL, ANSWER)
    elsewhere = HintedGroup(replace(hinted.group, task=Task("b", "", "", "")), hinted.hints)
    with pytest.raises(TrainingError, match="is in a group of task 'b'"):
        select_hinted([elsewhere], _failed("b"), ALL, ANSWER)


def test_a_hint_that_leaks_is_refused_by_name(make_trajectory: Make) -> None:
    """The environment answered with the hint between the two turns that were written."""
    hinted = _hinted(make_trajectory, ((6,), 1.0))
    leaking = make_trajectory(
        (1, 8, 9, 5, 2, 6, 8, 9, 7), ((0, 5, 6), (1, 8, 9)), name="a/0", task="a", logprobs=(-1.0, -1.0)
    )
    group = replace(hinted.group, members=(ScoredTrajectory(leaking, (0.0, 1.0)),))
    with pytest.raises(TrainingError, match="the hint leaks: trajectory 'a/0/without-hint'"):
        select_hinted([HintedGroup(group, (HINT,))], _failed(), ALL, ANSWER)
