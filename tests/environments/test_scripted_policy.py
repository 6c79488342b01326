"""Trajectories of scripted policies."""

from benchmarks.errands import ErrandsEnvironment, compose, make_task
from benchmarks.errands.baseline import do_nothing, oracle
from upturn.environments.scripted_policy import MAX_TURNS, fixed_policy, play
from upturn.records import Action

TASK = make_task("mail_file", 0)


def test_a_trajectory_is_recorded_turn_by_turn() -> None:
    environment = ErrandsEnvironment()
    _, before = environment.reset(TASK)
    after = environment.step(compose(TASK).draft.oracle[0]).info
    trajectory = play(environment, TASK, oracle)
    assert [turn.action for turn in trajectory.turns] == list(compose(TASK).draft.oracle)
    assert trajectory.turns[0].observation.text == TASK.instruction
    assert [trajectory.turns[1].observation.text, trajectory.final_observation.text] == ["moved", "done"]
    assert [turn.state_hash for turn in trajectory.turns] == [before.state_hash, after.state_hash]
    assert [turn.potential for turn in trajectory.turns] == [0.0, 1.0]
    assert trajectory.final_state == environment.state()
    assert (trajectory.outcome, trajectory.origin, trajectory.task_id) == ("finished", "rendered", TASK.id)


def test_an_endless_policy_is_truncated() -> None:
    endless = play(ErrandsEnvironment(), TASK, lambda *_: Action("mail", "list", {"folder": "inbox"}))
    assert (len(endless.turns), endless.outcome) == (MAX_TURNS, "step_limit")
    assert len(play(ErrandsEnvironment(), TASK, lambda *_: Action("mail", "list"), max_turns=3).turns) == 3
    stopped = play(ErrandsEnvironment(), TASK, fixed_policy(()))
    assert (len(stopped.turns), stopped.outcome, stopped.final_observation.text) == (
        0,
        "step_limit",
        TASK.instruction,
    )
    assert play(ErrandsEnvironment(), TASK, do_nothing).outcome == "finished"
