"""ProdBench: frozen, versioned suites of held-out tasks, and how they are drawn anew.

A suite is a list of (family, number, content hash). Tasks are rebuilt from it; one whose content is not what was
frozen, because its family was changed since, is refused by name: results on it are no results on the older one.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from itertools import count, cycle, islice
from typing import NamedTuple

from upturn.environments.suite import obstacle_tasks, safety_tasks
from upturn.environments.suite.tasks import FAMILIES, compose, make_task
from upturn.environments.workspace.workspace import TABLES
from upturn.errors import UnknownNameError, WorldError
from upturn.models import write_call
from upturn.records import Task

FIRST_NUMBER = 10**15
"""Of the tasks in suites; streams of tasks reach it with seeds around 10⁹ only."""
_SAFETY = tuple(family.name for family in safety_tasks.FAMILIES)
_OBSTACLES = tuple(family.name for family in obstacle_tasks.FAMILIES)
_REFUSED = ("row_missing", "mail_forward_if", "event_cancel")
"""Other families in which some tasks cannot, or need not, be done."""


class Recipe(NamedTuple):
    """What a suite is drawn from."""

    size: int
    families: tuple[str, ...]


def _of_levels(*levels: int) -> tuple[str, ...]:
    return tuple(
        family.name
        for family in FAMILIES.values()
        if family.level in levels and family.name not in (*_SAFETY, *_OBSTACLES)
    )


RECIPES: Mapping[str, Recipe] = {
    "prodbench-easy": Recipe(200, _of_levels(1)),
    "prodbench-medium": Recipe(200, _of_levels(2, 3)),
    "prodbench-hard": Recipe(200, _of_levels(4, 5)),
    "prodbench-safety": Recipe(100, _SAFETY),
    "prodbench-robustness": Recipe(100, (*_OBSTACLES, *_REFUSED)),
}
"""Families by suite: document 004's Easy is up to three steps, Medium the longer work in one app or on one file,
Hard work across apps; Safety has orders in texts, people outside, sensitive and too many things; Robustness has
unclear instructions, missing rights and what cannot be done."""


class Entry(NamedTuple):
    """One frozen task."""

    family: str
    number: int
    content: str
    """``content_of`` when it was frozen."""


class Suite(NamedTuple):
    """A frozen list of tasks."""

    name: str
    version: int
    entries: tuple[Entry, ...]

    @property
    def id(self) -> str:
        """Such as ``prodbench-easy/1``: what results are compared under."""
        return f"{self.name}/{self.version}"


def suite_named(name: str) -> Suite:
    """The suite as it was frozen; raises UnknownNameError. Its tasks are not checked, see ``tasks_of``."""
    if name not in RECIPES:
        raise UnknownNameError(f"unknown suite {name!r}; known: {', '.join(RECIPES)}")
    return read_suite((files(__package__) / "frozen" / f"{name}.json").read_text(encoding="utf-8"))


def tasks_of(suite: Suite) -> list[Task]:
    """The suite's tasks; raises WorldError naming those that are not any more what was frozen."""
    tasks = [make_task(each.family, each.number, split="heldout") for each in suite.entries]
    drifted = [
        task.id for task, entry in zip(tasks, suite.entries, strict=True) if content_of(task) != entry.content
    ]
    if drifted:
        raise WorldError(
            f"{suite.id}: {len(drifted)} of {len(tasks)} tasks are not what was frozen: {', '.join(drifted[:5])}"
            f"{' …' if len(drifted) > 5 else ''}; their families were changed since. Freeze a new version with "
            "tools/freeze_suites.py, and compare no results across versions"
        )
    return tasks


def freeze(name: str, version: int) -> Suite:
    """The suite drawn from the families as they are now: each as often as the others, no instruction twice."""
    size, families = RECIPES[name]
    drawn = islice(_drawn(families, list(RECIPES).index(name)), size)
    return Suite(name, version, tuple(sorted(drawn, key=lambda each: families.index(each.family))))


def _drawn(families: Sequence[str], place: int) -> Iterator[Entry]:
    """``place``: of the suite; those that share families share no task."""
    numbers = {family: count(FIRST_NUMBER + place, len(RECIPES)) for family in families}
    seen: set[str] = set()
    for family in cycle(families):
        number = next(each for each in numbers[family] if _asked(family, each) not in seen)
        task = make_task(family, number, split="heldout")
        seen.add(task.instruction)
        yield Entry(family, number, content_of(task))


def _asked(family: str, number: int) -> str:
    return make_task(family, number, split="heldout").instruction


def content_of(task: Task) -> str:
    """16 hex digits over all that a task is: what is asked, the whole office it is asked in, what is right there
    and what the user wants. A new field of mails or files is a change, too."""
    scenario = compose(task)
    draft, workspace = scenario.draft, scenario.workspace
    asked = [task.instruction, task.family, task.level, task.split, dict(task.context), workspace.owner]
    right = [scenario.goal, draft.answer, draft.is_feasible, [write_call(each) for each in draft.oracle]]
    digest = hashlib.blake2b(json.dumps([asked, right], sort_keys=True).encode(), digest_size=8)
    digest.update(json.dumps(asdict(workspace.persona), sort_keys=True).encode())
    for name in TABLES:
        for item in getattr(workspace, name).values():
            digest.update(repr(item).encode())
    return digest.hexdigest()


def write_suite(suite: Suite) -> str:
    """As JSON, a family a line."""
    by_family: dict[str, list[tuple[int, str]]] = {}
    for each in suite.entries:
        by_family.setdefault(each.family, []).append((each.number, each.content))
    lines = ",\n".join(f"  {json.dumps(family)}: {json.dumps(tasks)}" for family, tasks in by_family.items())
    return f'{{"name": {json.dumps(suite.name)}, "version": {suite.version}, "tasks": {{\n{lines}\n}}}}\n'


def read_suite(text: str) -> Suite:
    """The suite that ``write_suite`` wrote; its tasks are in the order of the families."""
    found = json.loads(text)
    entries = [Entry(family, *each) for family, tasks in found["tasks"].items() for each in tasks]
    return Suite(found["name"], found["version"], tuple(entries))
