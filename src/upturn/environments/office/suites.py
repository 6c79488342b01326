"""ProdBench: frozen, versioned suites of held-out tasks, and how they are drawn.

A suite is a list of (family, number, content hash). Tasks are rebuilt from it; a task whose content differs from
the frozen hash, because its family has changed, is an error, since its results would not be comparable.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import count, cycle, islice
from typing import NamedTuple

from upturn.environments.office.families.robustness import OBSTACLES, SAFETY
from upturn.environments.office.renaming import names_of, renamed
from upturn.environments.office.tasks import FAMILIES, LATER, compose, make_task
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Task

FIRST_NUMBER = 10**15
"""First number of tasks in suites; streams of tasks reach it only with seeds around 10⁹."""
_SAFETY = tuple(family.name for family in SAFETY)
_OBSTACLES = tuple(family.name for family in OBSTACLES)
_FAULTY = tuple(
    family.name for family in FAMILIES.values() if "faults" in family.atoms and family.name not in LATER
)
_REFUSED = ("row_missing", "mail_forward_if", "event_cancel")
"""Other families with infeasible tasks."""
RENAMED = "+renamed"
"""Suffix of a family: its tasks with renamed operations and parameters."""
_SCRAMBLED = tuple(
    f"{family}{RENAMED}"
    for family in (
        *("mail_move", "mail_reply", "event_create_with", "chat_message", "row_set", "table_summary"),
        *("rows_to_document", "late_one_reminded"),
    )
)
"""Families of all apps and lengths, renamed."""


class Recipe(NamedTuple):
    """The size and the families of a suite."""

    size: int
    families: tuple[str, ...]
    """With the suffix ``RENAMED`` for renamed tasks."""


def _of_levels(*levels: int) -> tuple[str, ...]:
    """Families of these levels, without atoms and without ``LATER``."""
    return tuple(
        family.name
        for family in FAMILIES.values()
        if family.level in levels and not family.atoms and family.name not in (*_SAFETY, *_OBSTACLES, *LATER)
    )


RECIPES: Mapping[str, Recipe] = {
    "prodbench-easy": Recipe(200, _of_levels(1)),
    "prodbench-medium": Recipe(200, _of_levels(2, 3)),
    "prodbench-hard": Recipe(200, _of_levels(4, 5)),
    "prodbench-safety": Recipe(100, _SAFETY),
    "prodbench-robustness": Recipe(100, (*_OBSTACLES, *_REFUSED, *_SCRAMBLED, *_FAULTY)),
}
"""By suite. Easy: up to three steps. Medium: longer tasks in one app or file. Hard: tasks across apps. Safety:
injected instructions, external people, sensitive items and large batches. Robustness: unclear instructions, missing
rights, infeasible tasks, app faults, and renamed operations."""


class Entry(NamedTuple):
    """One frozen task."""

    family: str
    """The family, as in a recipe."""
    number: int
    content: str
    """``content_of`` when it was frozen."""

    @property
    def task(self) -> Task:
        """The task as it is generated now."""
        task = make_task(self.family.removesuffix(RENAMED), self.number, split="heldout")
        return renamed(task) if self.family.endswith(RENAMED) else task


class Suite(NamedTuple):
    """A frozen list of tasks."""

    name: str
    version: int
    entries: tuple[Entry, ...]

    @property
    def id(self) -> str:
        """Such as ``prodbench-easy/2``: identifies comparable results."""
        return f"{self.name}/{self.version}"


def suite_named(name: str) -> Suite:
    """The frozen suite; raises UnknownNameError. ``tasks_of`` checks its tasks."""
    if name not in RECIPES:
        raise UnknownNameError(f"unknown suite {name!r}; known: {', '.join(RECIPES)}")
    return read_suite((files(__package__) / "frozen" / f"{name}.json").read_text(encoding="utf-8"))


def tasks_of(suite: Suite) -> list[Task]:
    """The suite's tasks; raises WorldError naming those whose content has changed."""
    tasks = [entry.task for entry in suite.entries]
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
    """The suite drawn from the current families: equal numbers of tasks of each, without repeated instructions."""
    size, families = RECIPES[name]
    entries = islice(_draw_entries(families, list(RECIPES).index(name)), size)
    return Suite(name, version, tuple(sorted(entries, key=lambda entry: families.index(entry.family))))


def _draw_entries(families: Sequence[str], suite_number: int) -> Iterator[Entry]:
    """``suite_number``: suites that share families share no task."""
    numbers = {family: count(FIRST_NUMBER + suite_number, len(RECIPES)) for family in families}
    seen: set[str] = set()
    for family in cycle(families):
        entries = (Entry(family, number, "") for number in numbers[family])
        entry = next(candidate for candidate in entries if candidate.task.instruction not in seen)
        seen.add(entry.task.instruction)
        yield entry._replace(content=content_of(entry.task))


def content_of(task: Task) -> str:
    """16 hex digits over the task's instruction, office, goal and user. New fields of mails or files change it
    too."""
    scenario = compose(task)
    workspace, names = scenario.workspace, names_of(task)
    task_fields = [task.instruction, task.family, task.level, task.split, dict(task.context), workspace.owner]
    names_text = "" if names is None else names.listing()
    digest = hashlib.blake2b(
        json.dumps([task_fields, scenario.goal, names_text], sort_keys=True).encode(), digest_size=8
    )
    for part in (repr(scenario.draft).encode(), *scenario.parts()):
        digest.update(part)
    return digest.hexdigest()


def write_suite(suite: Suite) -> str:
    """The suite as JSON, one line per family."""
    by_family: dict[str, list[tuple[int, str]]] = {}
    for entry in suite.entries:
        by_family.setdefault(entry.family, []).append((entry.number, entry.content))
    lines = ",\n".join(f"  {json.dumps(family)}: {json.dumps(tasks)}" for family, tasks in by_family.items())
    return f'{{"name": {json.dumps(suite.name)}, "version": {suite.version}, "tasks": {{\n{lines}\n}}}}\n'


def read_suite(text: str) -> Suite:
    """The suite from the text of ``write_suite``; its tasks are in the order of the families."""
    suite = json.loads(text)
    entries = [Entry(family, *task) for family, tasks in suite["tasks"].items() for task in tasks]
    return Suite(suite["name"], suite["version"], tuple(entries))
