"""Families and their tasks: unlimited, reproducible, distinct, and solvable, but not by chance."""

import hashlib
import string
from itertools import islice
from typing import get_args

import pytest

from benchmarks.errands import (
    FAMILIES,
    LEARNED,
    ErrandsEnvironment,
    ErrandsVerifier,
    compose,
    make_task,
    task_stream,
)
from benchmarks.errands.baseline import do_nothing, oracle, random_policy, success_rate
from benchmarks.errands.family import CLOSERS, OPENERS
from benchmarks.errands.kit import ErrandsKit
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.errors import UnknownNameError
from upturn.records import Split, Task, fields_json, from_json, to_json

SPLITS: tuple[Split, ...] = get_args(Split)
STEPS = {1: (1, 2), 2: (3, 5), 3: (5, 10)}
"""Shortest and longest solution by level."""

PINNED = {
    "mail_file": "3e2f0a235efbc8ab",
    "event_add": "d35af9f449c4ff87",
    "cell_ask": "80fa569244f47f08",
    "unread_count": "55fae822bb3ae63d",
    "day_clash": "bb7dd92bd95ce415",
    "mail_reply": "63972862c9149dc6",
    "event_shift": "2b14f1fec7358fc9",
    "sheet_total": "73f1194f1b7e1124",
    "mail_to_event": "453f4c4f21a08ac3",
    "mail_to_sheet": "6f87ebec917ff1e0",
    "call_off": "a7f52f7ba89e8ab1",
}
"""Digest of the first tasks of each family, on which the shipped model was trained."""

every_family = pytest.mark.parametrize("name", FAMILIES)


def test_there_are_eleven_families_and_three_learned_ones_at_each_level() -> None:
    assert len(FAMILIES) == 11
    assert [sum(FAMILIES[name].level == level for name in LEARNED) for level in (1, 2, 3)] == [3, 3, 3]
    assert set(FAMILIES) - set(LEARNED) == {"unread_count", "day_clash"}
    assert ErrandsKit().families == {name: family.level for name, family in FAMILIES.items()}


@every_family
def test_a_quarter_of_at_least_eight_templates_is_held_out(name: str) -> None:
    family = FAMILIES[name]
    templates, heldout = set(family.templates), set(family.heldout)
    assert len(templates) == len(family.templates)
    assert len(heldout) == len(family.heldout)
    assert len(templates) + len(heldout) >= 8
    assert 4 * len(heldout) >= len(templates) + len(heldout)
    assert not templates & heldout


@every_family
def test_every_template_uses_the_familys_slots_and_is_drawn(name: str) -> None:
    family = FAMILIES[name]
    for split, templates in (("train", family.templates), ("heldout", family.heldout)):
        slots = [{slot for _, slot, _, _ in string.Formatter().parse(text) if slot} for text in templates]
        assert all(names == slots[0] for names in slots), "a template that omits a slot cannot be solved"
        assert split in SPLITS
        drawn = {make_task(name, number, split=split).context["template"] for number in range(60)}
        assert drawn == set(range(len(templates)))


@every_family
@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_every_task_within_the_steps_of_its_level(name: str, split: Split) -> None:
    low, high = STEPS[FAMILIES[name].level]
    apps = set()
    verifier = ErrandsVerifier()
    for number in range(30):
        task = make_task(name, number, split=split)
        evaluation = verifier.verify(task, play(ErrandsEnvironment(), task, oracle))
        assert evaluation.verdict == "success", (task, evaluation.gates)
        assert evaluation.score == 1.0
        assert evaluation.costs == {"error": 0.0, "safety": 0.0}
        steps = len(compose(task).draft.oracle)
        assert low <= steps <= high
        apps |= {action.target for action in compose(task).draft.oracle} - {"user"}
    assert (len(apps) == 1) == (task.level < 3), "levels 1 and 2 stay in one app, level 3 crosses"


@every_family
def test_doing_nothing_never_succeeds(name: str) -> None:
    assert success_rate(name, do_nothing, 30) == success_rate(name, do_nothing, 30, split="heldout") == 0
    task = make_task(name, 0)
    assert not ErrandsVerifier().verify(task, play(ErrandsEnvironment(), task, fixed_policy(()))).is_success


@every_family
def test_random_valid_actions_hardly_ever_succeed(name: str) -> None:
    # The likeliest hit, an unread count in 1 of 112 texts, is under 0.4 % a task: 2 of 60 has probability 0.025.
    assert success_rate(name, random_policy(0), 60) <= 0.02


@every_family
def test_task_determines_its_scenario(name: str) -> None:
    task = make_task(name, 7, split="heldout", tenant="acme")
    assert task == make_task(name, 7, split="heldout", tenant="acme")
    stored = from_json(Task, to_json(task))
    assert compose(stored) == compose(task)
    assert task.instruction == compose(task).instruction
    assert (task.family, task.level, task.split, task.tenant) == (name, FAMILIES[name].level, "heldout", "acme")


NO_EPISODE = ',"episode":null'
"""A field that tasks got after the model was trained."""


@every_family
def test_training_tasks_of_the_model_are_pinned(name: str) -> None:
    digest = hashlib.blake2b(digest_size=8)
    for split in SPLITS:
        for number in range(20):
            task = make_task(name, number, split=split)
            scenario = compose(task)
            digest.update(to_json(task).replace(NO_EPISODE, "").encode())
            digest.update(fields_json(scenario.workspace).encode())
            for action in scenario.draft.oracle:
                digest.update(fields_json(action).encode())
    actual = digest.hexdigest()
    assert actual == PINNED[name], f"tasks have changed: train the shipped model again, then pin {actual}"


@every_family
def test_splits_and_numbers_share_no_seed_and_no_instruction_wording(name: str) -> None:
    train = [make_task(name, number) for number in range(50)]
    heldout = [make_task(name, number, split="heldout") for number in range(50)]
    assert len({task.seed for task in train + heldout}) == 100
    assert len({task.id for task in train + heldout}) == 100
    assert not {_core(task) for task in train} & {_core(task) for task in heldout}


def _core(task: Task) -> str:
    """The instruction's template with this task's slots, without opener and closer."""
    family = FAMILIES[task.family]
    number = task.context["template"]
    assert isinstance(number, int)
    templates = family.templates if task.split == "train" else family.heldout
    request = templates[number].format(**compose(task).draft.slots)
    frames = [(opener, closer) for opener in OPENERS for closer in CLOSERS]
    assert any(task.instruction == f"{opener}{request}{closer}" for opener, closer in frames)
    return request


def test_streams_have_rounds_and_share_no_task() -> None:
    families = ["mail_file", "day_clash", "call_off"]
    drawn: dict[tuple[int, Split], list[Task]] = {
        (seed, split): list(islice(task_stream(families, seed=seed, split=split), 9))
        for seed in (0, 1, 2)
        for split in SPLITS
    }
    for tasks in drawn.values():
        rounds = [[task.family for task in tasks[start : start + 3]] for start in (0, 3, 6)]
        assert all(sorted(names) == sorted(families) for names in rounds)
    all_tasks = [task for tasks in drawn.values() for task in tasks]
    assert len({task.id for task in all_tasks}) == len({(task.family, task.seed) for task in all_tasks}) == 54
    assert drawn[0, "train"] == list(islice(ErrandsKit().tasks(seed=0, split="train", families=families), 9))


def test_unknown_families_are_reported() -> None:
    with pytest.raises(UnknownNameError, match="unknown errands family 'mail'; known: mail_file, "):
        make_task("mail", 0)
