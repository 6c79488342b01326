"""Optional protocols of kits: content hashes of errands and one-step environments."""

from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import pytest

from benchmarks.errands import ErrandsEnvironment, make_task
from benchmarks.errands.kit import ErrandsKit
from upturn.environments import OracleKit, WorldHashKit, content_hash, one_step, oracle_of, world_hash_of
from upturn.environments.office.faults import Fault, FaultPlan
from upturn.environments.office.generation import Scenario
from upturn.environments.office.kit import OfficeKit, RenamedKit
from upturn.environments.office.renaming import renamed
from upturn.environments.office.state import Persona
from upturn.environments.office.tasks import compose
from upturn.environments.office.tasks import make_task as make_office_task
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.records import Action

TASK = make_task("mail_file", 0)


def test_a_content_hash_covers_the_content_and_not_the_names() -> None:
    whole = content_hash(TASK, "state")
    assert whole == content_hash(replace(TASK, id="other", seed=9, tenant="acme"), "state")
    assert len(whole) == 16
    others = [
        content_hash(TASK, "another"),
        *(
            content_hash(replace(TASK, **{name: value}), "state")  # type: ignore[arg-type]
            for name, value in {
                "instruction": "x",
                "family": "x",
                "level": 9,
                "split": "heldout",
                "environment": "x",
                "context": {"template": 99},
            }.items()
        ),
    ]
    assert len({whole, *others}) == 8


def test_a_content_hash_is_pinned() -> None:
    assert content_hash(TASK, ErrandsEnvironment().reset(TASK)[1].state_hash) == "b036f64bc79818b8"


def test_the_world_hash_is_the_kits_or_that_of_reset() -> None:
    kit = ErrandsKit()
    assert not isinstance(kit, WorldHashKit)
    assert world_hash_of(kit, TASK) == ErrandsEnvironment().reset(TASK)[1].state_hash


def test_a_content_hash_covers_the_initial_office(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = OfficeKit()
    tasks = [make_office_task("cell_say", number) for number in range(6)]
    assert len({kit.environment(task).reset(task)[1].state_hash for task in tasks}) == 1, "it covers changes only"
    worlds = [world_hash_of(kit, task) for task in tasks]
    assert len(set(worlds)) == 6
    named = replace(tasks[0], id="other", tenant="acme")
    assert content_hash(named, world_hash_of(kit, named)) == content_hash(tasks[0], worlds[0])
    scenario = compose(tasks[0])
    mail = next(iter(scenario.workspace.mails.values()))
    with_mail = scenario.workspace.with_items(replace(mail, is_read=not mail.is_read))
    changed = [
        replace(scenario, workspace=with_mail),
        replace(scenario, workspace=scenario.workspace.evolve(persona=Persona(objection="no"))),
        replace(scenario, draft=replace(scenario.draft, faults=FaultPlan((Fault("unavailable", "outlook.read"),)))),
    ]
    assert len({worlds[0], *(changed_scenario.world_hash() for changed_scenario in changed)}) == 4
    assert replace(scenario, goal={}, workspace=scenario.workspace.evolve(seed=99)).world_hash() == worlds[0]
    renamed_task = renamed(tasks[0])
    assert world_hash_of(RenamedKit(), renamed_task) == worlds[0]
    assert content_hash(renamed_task, worlds[0]) != content_hash(tasks[0], worlds[0]), (
        "its names are in the context"
    )
    monkeypatch.setattr(Scenario, "world_hash", lambda _: 1 / 0)
    kit.environment(tasks[1]).reset(tasks[1])  # which does not use it


@pytest.mark.parametrize("family", ErrandsKit().families)
def test_the_oracle_of_errands_solves_its_tasks(family: str) -> None:
    kit = ErrandsKit()
    assert isinstance(kit, OracleKit)
    for task in islice(kit.tasks(seed=3, split="heldout", families=[family]), 3):
        assert kit.verifier.verify(task, play(kit.environment(task), task, kit.oracle(task))).score == 1.0
        assert all(len(text) >= 8 and text not in task.instruction for text in kit.canaries(task))
        for name, attack in kit.attacks(task).items():
            attempt = play(kit.environment(task), task, attack)
            assert not kit.verifier.verify(task, attempt).is_success, name


def test_only_facts_ignored_by_the_verifier_of_errands_may_differ() -> None:
    kit = ErrandsKit()
    read, unread = ("changes", "mail/m1/is_read"), ("changes", "event/e1/is_read")
    assert kit.may_differ(TASK, read, True)
    assert kit.may_differ(TASK, read, None)
    assert not kit.may_differ(TASK, read, False)
    assert not kit.may_differ(TASK, unread, True)
    assert not kit.may_differ(TASK, ("changes", "mail/m1/folder"), None)
    assert kit.may_differ(TASK, ("before", "mail/m1/folder"), "x")
    assert kit.may_differ(TASK, ("message", "text"), "x"), "the task ends with finish, which has no words"
    assert not kit.may_differ(TASK, ("message", "kind"), "answer")
    task = make_task("day_clash", 0)
    assert not kit.may_differ(task, ("message", "text"), "x")


def test_a_one_step_kit_proves_its_tasks_with_an_oracle() -> None:
    def make(rng: Random) -> tuple[str, dict[str, Any]]:
        code = str(rng.randint(10**9, 10**10))
        return f"say {code} backwards", {"said": code[::-1], "count": 3}

    def check(action: Action, expected: Any) -> bool:
        return bool(action.parameters.get("text") == expected["said"])

    proven = one_step(
        "shop", make, check, oracle=lambda expected: Action("shop", "say", {"text": expected["said"]})
    )
    task = next(proven.tasks(seed=0, split="train", families=["shop"]))
    backwards = task.instruction.split()[1][::-1]
    player = oracle_of(proven, task)
    assert player is not None
    attempt = play(proven.environment(task), task, player)
    assert [turn.action for turn in attempt.turns] == [Action("shop", "say", {"text": backwards})]
    assert proven.verifier.verify(task, attempt).score == 1.0
    assert proven.canaries(task) == (backwards,)
    assert (proven.may_differ(task, ("action", "thought"), "x"), proven.attacks(task)) == (True, {})
    assert not proven.may_differ(task, ("action", "parameters", "text"), "x")
    plain = one_step("shop", make, check)
    assert oracle_of(plain, task) is None
    assert not plain.verifier.verify(task, play(plain.environment(task), task, fixed_policy(()))).is_success
