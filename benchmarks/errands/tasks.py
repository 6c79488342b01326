"""Tasks of errands: families by name, tasks by (family, template, seed), scenarios rebuilt from a task alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random

from benchmarks.errands import level1, level2, level3
from benchmarks.errands.family import CLOSERS, OPENERS, Family, Scenario
from benchmarks.errands.world import World
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Split, Task

FAMILIES: dict[str, Family] = {
    family.name: family for module in (level1, level2, level3) for family in module.FAMILIES
}
LEARNED = tuple(family.name for family in FAMILIES.values() if family.is_learned)
"""Families that nano-errands is trained on; the rule-based agent solves the others."""
_STREAMS: dict[Split, int] = {"train": 0, "heldout": 1}
"""Even seeds are for training, odd ones for held-out tasks: no world is in both."""
_WORLD_STREAM = "office/1"
"""Random stream of the worlds: the environment's first name, so that worlds stay the measured ones."""


def family_named(name: str) -> Family:
    """The family. Raises UnknownNameError with the known names."""
    if name not in FAMILIES:
        raise UnknownNameError(f"unknown errands family {name!r}; known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def make_task(family_name: str, number: int, *, split: Split = "train", tenant: str = "default") -> Task:
    """The ``number``-th task of a family in a split; equal arguments always give the same task."""
    family = family_named(family_name)
    templates = _templates(family, split)
    template = Random(f"template/{family_name}/{split}/{number}").randrange(len(templates))
    seed = 2 * number + _STREAMS[split]
    task = Task(
        id=f"errands/{family_name}/{split}/{template}/{number}",
        instruction="",
        family=family_name,
        environment="errands",
        level=family.level,
        seed=seed,
        split=split,
        tenant=tenant,
        context={"template": template},
    )
    return replace(task, instruction=compose(task).instruction)


def task_stream(families: Sequence[str], *, seed: int, split: Split = "train") -> Iterator[Task]:
    """Tasks without end, families shuffled in rounds; streams of different seeds share no world."""
    round_number = 0
    while True:
        order = list(families)
        Random(f"stream/{seed}/{round_number}").shuffle(order)
        for family in order:
            yield make_task(family, seed * 1_000_003 + round_number, split=split)
        round_number += 1


def compose(task: Task) -> Scenario:
    """The task's world, instruction, oracle and expected outcome. Raises WorldError for foreign tasks."""
    template_number = task.context.get("template")
    if task.environment != "errands" or not isinstance(template_number, int):
        raise WorldError(
            f"task {task.id!r} is not an errands task: environment {task.environment!r}, context {task.context!r}"
        )
    family = family_named(task.family)
    count = len(_templates(family, task.split))
    if not 0 <= template_number < count:
        raise WorldError(f"task {task.id!r} names template {template_number}; {family.name} has {count}")
    return _compose(family.name, task.split, template_number, task.seed)


def _templates(family: Family, split: Split) -> tuple[str, ...]:
    return family.templates if split == "train" else family.heldout


@lru_cache(maxsize=4096)
def _compose(family_name: str, split: Split, template: int, seed: int) -> Scenario:
    """Cached, because a task's scenario is needed to make, reset and verify it."""
    family = FAMILIES[family_name]
    rng = Random(f"{_WORLD_STREAM}/{family_name}/{seed}")
    world = World(rng)
    draft = family.draw(world)
    workspace = world.fill()
    request = _templates(family, split)[template].format(**draft.slots)
    return Scenario(workspace, rng.choice(OPENERS) + request + rng.choice(CLOSERS), draft)
