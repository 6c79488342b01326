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
"""The families that the nano policy is to learn; the others belong to the rule-based agent."""
_STREAMS: dict[Split, int] = {"train": 0, "heldout": 1}
"""Even seeds are for training, odd ones held out: no world is ever in both."""
_DRAWN = "office/1"
"""What worlds are drawn by: the environment's first name, kept so that they stay those that were measured."""


def family_named(name: str) -> Family:
    """The family, or UnknownNameError listing the known ones."""
    if name not in FAMILIES:
        raise UnknownNameError(f"unknown errands family {name!r}; known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def make_task(family_name: str, number: int, *, split: Split = "train", tenant: str = "default") -> Task:
    """The ``number``-th task of a family in a split; the same arguments give the same task, for ever."""
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
    """The task's world, instruction, oracle and expected outcome; raises WorldError for foreign tasks."""
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
    """Cached, because a task's scenario is needed when it is made, reset and judged."""
    family = FAMILIES[family_name]
    rng = Random(f"{_DRAWN}/{family_name}/{seed}")
    world = World(rng)
    draft = family.draw(world)
    workspace = world.fill()
    words = _templates(family, split)[template].format(**draft.slots)
    return Scenario(workspace, rng.choice(OPENERS) + words + rng.choice(CLOSERS), draft)
