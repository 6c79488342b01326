"""Offices with app faults: verification and recovery."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from upturn.environments.checker import PROBES, check_environment
from upturn.environments.office import OfficeKit
from upturn.environments.office.families.robustness import COMPOUND, FAULTS
from upturn.environments.office.generation.family import Draft, Family, Scenario, call, with_agreement
from upturn.environments.office.recovery import Recovery, recovery
from upturn.environments.office.state.person import is_outside
from upturn.environments.office.tasks import compose, make_task
from upturn.errors import WorldError
from upturn.records import Action, Evaluation, Task, Trajectory, from_json, to_json

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]

FAMILIES = (*FAULTS, *COMPOUND)


def cases(family: str, kind: str, *, count: int = 200) -> Iterator[tuple[Task, Scenario]]:
    """Yields tasks of a family in which this is the only fault."""
    for number in range(count):
        task = make_task(family, number)
        scenario = compose(task)
        if [fault.kind for fault in scenario.draft.faults.faults] == [kind]:
            yield task, scenario


def final_state(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the final state of the trajectory."""
    return dict(trajectory.final_state)


def failed_gates(evaluation: Evaluation) -> list[str]:
    """Returns the names of the gates that fail."""
    return [gate.name for gate in evaluation.gates if not gate.is_passed]


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_the_oracle_recovers_from_all_recoverable_faults(family: str, rollout: Rollout) -> None:
    fault_count = 0
    for number in range(4):
        task = make_task(family, number)
        trajectory, evaluation = rollout(task, compose(task).draft.oracle)
        result = recovery(trajectory, task)
        assert evaluation.is_success
        assert result.recovered == result.faults
        fault_count += len(final_state(trajectory)["faults"])
        assert result == recovery(from_json(Trajectory, to_json(trajectory)), task)
    assert fault_count


def test_tasks_with_faults_have_the_atom() -> None:
    assert make_task("mail_reply_unanswered", 0).context["atoms"] == ["faults"]
    assert make_task("one_of_a_name_unanswered", 0).context["atoms"] == ["ambiguity", "faults"]
    assert "atoms" not in make_task("mail_reply", 0).context


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if len(family.atoms) > 1], ids=lambda item: item.name
)
def test_tasks_have_the_obstacles_of_their_atoms(family: Family) -> None:
    [atom] = set(family.atoms) - {"faults"}
    has: dict[str, Callable[[Draft], object]] = {
        "ambiguity": lambda draft: draft.clarification,
        "traps": lambda draft: draft.traps,
        "gaps": lambda draft: not draft.is_feasible,
        "outsiders": lambda draft: is_outside(draft.slots["address"]),
    }
    result = [bool(has[atom](compose(make_task(family.name, number)).draft)) for number in range(12)]
    assert any(result)
    assert all(result) or atom in {"ambiguity", "gaps"}  # where there may also be none, to be found out


def test_a_reply_repeated_after_a_lost_answer_is_a_duplicate_and_not_recovered(rollout: Rollout) -> None:
    task, scenario = next(cases("mail_reply_unanswered", "lost_answer"))
    find, preview, confirm, reply, look, finish = scenario.draft.oracle

    patient, evaluation = rollout(task, [find, preview, confirm, reply, look, finish])
    assert (failed_gates(evaluation), recovery(patient, task)) == ([], Recovery(1, 1))
    hasty, evaluation = rollout(task, [find, preview, confirm, reply, *with_agreement(reply), finish])
    assert (failed_gates(evaluation), recovery(hasty, task)) == (["goal", "looked"], Recovery(1, 0))
    assert len(final_state(hasty)["changes"]["mails/+"]) == 2


def test_giving_up_after_a_fault_is_no_recovery(rollout: Rollout) -> None:
    task, scenario = next(cases("mail_reply_unanswered", "timeout"))
    find, preview, confirm, reply, look, again, finish = scenario.draft.oracle
    assert again == reply

    given_up, evaluation = rollout(task, [find, preview, confirm, reply, look, finish])
    assert (failed_gates(evaluation), recovery(given_up, task)) == (["goal"], Recovery(1, 0))
    done = rollout(task, [find, preview, confirm, reply, look, reply, finish])[0]
    assert recovery(done, task) == Recovery(1, 1)
    assert recovery(rollout(task, [find, finish])[0], task) == Recovery(0, 0)


def test_new_posts_and_slides_are_distinguished_from_existing_ones(rollout: Rollout) -> None:
    for family in ("channel_post_number_unanswered", "decisions_to_slide_unanswered"):
        task, scenario = next(cases(family, "lost_answer"))
        *work, look, finish = scenario.draft.oracle
        once = rollout(task, [*work, look, finish])[0]
        again = with_agreement(work[-1]) if work[-1].target == "teams" else [work[-1]]
        twice = rollout(task, [*work, *again, finish])[0]
        assert (recovery(once, task), recovery(twice, task)) == (Recovery(1, 1), Recovery(1, 0))


def test_a_partial_mail_is_recovered_by_a_mail_to_the_rest_not_to_all(rollout: Rollout) -> None:
    task, scenario = next(cases("mail_to_several_partly", "partial_write"))
    *work, preview, confirm, rest, finish = scenario.draft.oracle
    sent = work[-1]
    people = sent.parameters["to"]
    assert isinstance(people, list)
    assert rest.parameters["to"] == people[-1:]

    careful, evaluation = rollout(task, [*work, preview, confirm, rest, finish])
    assert (failed_gates(evaluation), recovery(careful, task)) == ([], Recovery(1, 1))
    hasty, evaluation = rollout(task, [*work, *with_agreement(sent), finish])
    assert ("goal" in failed_gates(evaluation), recovery(hasty, task)) == (True, Recovery(1, 0))
    assert recovery(rollout(task, [*work, finish])[0], task) == Recovery(1, 0)


def test_a_refused_read_is_recovered_when_the_app_answers_later(rollout: Rollout) -> None:
    task, scenario = next(
        case
        for case in cases("row_set_interrupted", "unavailable")
        if case[1].draft.faults.faults[0].call == "excel.find"
    )
    find, open_book, hit, *rest = scenario.draft.oracle
    assert recovery(rollout(task, [find, open_book, hit])[0], task) == Recovery(1, 0)
    assert recovery(rollout(task, [find, open_book, hit, find])[0], task) == Recovery(1, 0)
    assert recovery(rollout(task, [find, open_book, hit, *rest])[0], task) == Recovery(1, 1)


def test_a_denied_permission_requires_a_refusal_and_no_change(rollout: Rollout) -> None:
    task, scenario = next(
        case for case in cases("event_move_denied", "no_permission") if not case[1].draft.is_feasible
    )
    listed, move, ask, refuse = scenario.draft.oracle
    person = scenario.draft.answer

    trajectory, evaluation = rollout(task, [listed, move, ask, refuse])
    assert (failed_gates(evaluation), recovery(trajectory, task)) == ([], Recovery(0, 0))
    assert final_state(trajectory)["changes"] == {}
    assert failed_gates(rollout(task, [listed, move, refuse])[1]) == ["asked"]  # somebody might have given it
    assert failed_gates(rollout(task, [listed, refuse])[1]) == ["asked"]  # nobody has denied anything
    assert failed_gates(rollout(task, [listed, move, ask, call("user.finish")])[1]) == ["answer"]
    assert failed_gates(rollout(task, [listed, move, ask])[1]) == ["ended", "answer"]
    plain = call("user.refuse", text="i have no right to do that")
    assert failed_gates(rollout(task, [listed, move, ask, plain])[1]) == []
    assert failed_gates(rollout(task, [listed, move, plain])[1]) == ["asked"]
    vague = call("user.refuse", text="this is too difficult")
    assert failed_gates(rollout(task, [listed, move, ask, vague])[1]) == ["answer"]
    elsewhere = call("calendar.create", title="x", start="2026-03-09 09:00", end="2026-03-09 10:00")
    assert failed_gates(rollout(task, [listed, move, ask, elsewhere, refuse])[1]) == ["untouched"]
    assert person is not None
    assert person in str(refuse.parameters["text"])


def test_refusing_for_an_obtainable_permission_fails(rollout: Rollout) -> None:
    task, scenario = next(case for case in cases("event_move_denied", "no_permission") if case[1].draft.is_feasible)
    listed, move, ask, again, finish = scenario.draft.oracle
    person = scenario.draft.faults.faults[0].person

    assert failed_gates(rollout(task, [listed, move, ask, again, finish])[1]) == []
    refused = call("user.refuse", text=f"{person} denies it")
    assert failed_gates(rollout(task, [listed, move, ask, refused])[1]) == ["goal", "answer"]


def test_a_file_moved_by_a_fault_is_not_the_agents_change(rollout: Rollout) -> None:
    task, scenario = next(cases("cell_set_relocated", "moved"))
    find, use, search, write, finish = scenario.draft.oracle
    fault = scenario.draft.faults.faults[0]

    assert final_state(rollout(task, [find, use])[0])["changes"] == {}
    done, evaluation = rollout(task, [find, use, search, write, finish])
    assert failed_gates(evaluation) == []
    assert list(final_state(done)["changes"]) == list(scenario.goal)
    assert all(path.startswith(f"files/{fault.to_id}/") for path in scenario.goal)


def test_a_fault_costs_nothing_but_retrying_too_early_does(rollout: Rollout) -> None:
    task, scenario = next(cases("mail_two_hops_interrupted", "rate_limited"))
    at = next(index for index, action in enumerate(scenario.draft.oracle) if action.operation == "wait")
    before, hit, after = scenario.draft.oracle[: at - 1], scenario.draft.oracle[at - 1], scenario.draft.oracle[at:]

    trajectory, evaluation = rollout(task, [*before, hit, hit, *after])
    assert [dict(turn.costs) for turn in trajectory.turns[at - 1 : at + 1]] == [{}, {"error": 1.0}]
    assert evaluation.is_success
    assert evaluation.costs["error"] == 1


def test_faults_are_reported_in_their_step_and_repeat_after_a_restore() -> None:
    task, scenario = next(cases("mail_reply_unanswered", "lost_answer"))
    environment = OfficeKit().environment(task)
    _, start = environment.reset(task)
    *before, reply, _, _ = scenario.draft.oracle
    steps = [environment.step(action) for action in before]
    snapshot, state = environment.snapshot(), environment.state()
    step = environment.step(reply)
    after: dict[str, Any] = dict(environment.state())

    assert [step.info.faults for step in steps] == [(), (), ()]
    assert [step.info.sim_time for step in steps] == [1, 6, 66]
    assert step.info.faults == ("lost_answer",)
    assert step.observation.code == "timed_out"
    assert step.info.sim_time == 66 + scenario.draft.faults.faults[0].seconds
    assert (state["faults"], [item["kind"] for item in after["faults"]]) == ([], ["lost_answer"])
    assert (start.potential, steps[-1].info.potential, step.info.potential) == (0, 0, 1)
    assert step.info.state_hash not in {step.info.state_hash for step in steps}
    environment.restore(snapshot)
    assert environment.state() == state
    assert environment.step(reply) == step
    assert environment.state() == after


def test_environments_with_faults_keep_the_contract() -> None:
    kit = OfficeKit()
    kit.families = {
        name: level for name, level in kit.families.items() if name.endswith(("_weathered", "_relocated"))
    }
    acting = (call("outlook.search"), call("outlook.read", id="m7"), call("sharepoint.list_files"))
    check_environment(kit, 1, probes=(*PROBES[:3], *acting))


def test_recovery_refuses_another_tasks_trajectory(rollout: Rollout) -> None:
    task = make_task("mail_reply", 0)
    trajectory, _ = rollout(task, compose(task).draft.oracle)
    assert recovery(trajectory, task) == Recovery(0, 0)
    with pytest.raises(WorldError, match="not to 'other'"):
        recovery(trajectory, replace(task, id="other"))
