"""The kit that a run works with: the configured environment, with the judge and the tasks that were asked for."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from random import Random

from upturn.config import Config
from upturn.environments import Environment, EnvironmentKit, Verifier, hint_of, resolve_kit, tools_of
from upturn.errors import ConfigError, RecordError
from upturn.records import Split, Task, from_fields

DEFAULT_TENANT = "default"
"""The tenant that environments make their tasks for."""
SET_ASIDE = 8
"""Of a file's training tasks one in so many is set aside, to choose weights on; nothing is trained on these."""
FEWEST_SET_ASIDE = 16
"""Fewer are none: with 16 tasks the 95 % interval of a success rate is up to 50 points wide already."""


def kit_of(config: Config) -> EnvironmentKit:
    """The configured kit; raises UnknownNameError for the environment, ConfigError for judge and task file."""
    kit = resolve_kit(config.environment.name)
    tenant = config.pool.tenant
    verifier = kit.verifier
    if config.environment.verifier:
        verifier = _load_verifier(config.environment.verifier)
    if config.tasks.file:
        tasks = read_tasks(Path(config.tasks.file), kit.name, tenant)
        train_on_rollouts = [
            task for task in tasks if task.family in (config.tasks.train_families or (task.family,))
        ]
        return FileKit(kit, verifier, tasks, aside=_set_aside(train_on_rollouts) if config.trains else ())
    if verifier is kit.verifier and tenant == DEFAULT_TENANT:
        return kit
    return OwnKit(kit, verifier, tenant)


def served_families(config: Config, kit: EnvironmentKit) -> list[str]:
    """The configured families of the configured levels; all of them where nothing is said."""
    chosen, levels = config.tasks.families or tuple(kit.families), config.tasks.levels
    return [family for family in chosen if not levels or kit.families[family] in levels]


def trained_families(config: Config, kit: EnvironmentKit) -> list[str]:
    """The served families that are trained and evaluated."""
    served = served_families(config, kit)
    return [family for family in served if family in (config.tasks.train_families or served)]


class OwnKit:
    """A kit with another judge, or for another tenant."""

    def __init__(self, kit: EnvironmentKit, verifier: Verifier, tenant: str) -> None:
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = verifier
        self.tools = tools_of(kit)
        self._kit = kit
        self._tenant = tenant

    def environment(self, task: Task) -> Environment:
        """The kit's."""
        return self._kit.environment(task)

    def hint(self, task: Task) -> str | None:
        """The kit's."""
        return hint_of(self._kit, task)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """The kit's, as the tenant's own: with ids that no other tenant has."""
        for task in self._kit.tasks(seed=seed, split=split, families=families):
            if self._tenant == DEFAULT_TENANT:
                yield task
            else:
                yield replace(task, tenant=self._tenant, id=f"{self._tenant}:{task.id}")


class FileKit:
    """A kit whose tasks come from a file: as many as stand there, in an order that the seed decides.

    Streams of different seeds share tasks, since there are no others. Service, whose stream has one seed in a run,
    still meets each task once; practice meets training tasks again, in other iterations. Those that are set aside
    are met by neither.
    """

    def __init__(
        self, kit: EnvironmentKit, verifier: Verifier, tasks: Sequence[Task], *, aside: Collection[str] = ()
    ) -> None:
        """``aside``: ids of the training tasks that are for choosing weights only."""
        self.name = kit.name
        self.verifier = verifier
        self.families: Mapping[str, int] = {task.family: task.level for task in tasks}
        self.tools = tools_of(kit)
        self._kit = kit
        self._tasks = tuple(task for task in tasks if task.id not in aside)
        self._aside = tuple(task for task in tasks if task.id in aside)

    def environment(self, task: Task) -> Environment:
        """The kit's, which must be able to build its world from the file's tasks."""
        return self._kit.environment(task)

    def hint(self, task: Task) -> str | None:
        """The kit's."""
        return hint_of(self._kit, task)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Each task of the split and families once, in rounds over the families as long as they last."""
        return _in_rounds([task for task in self._tasks if task.split == split], seed, families)

    def set_aside(self, *, seed: int, families: Sequence[str]) -> Iterator[Task]:
        """The training tasks that are for choosing weights only, likewise; none where the file has too few."""
        return _in_rounds(self._aside, seed, families)


def _in_rounds(tasks: Sequence[Task], seed: int, families: Sequence[str]) -> Iterator[Task]:
    by_family = []
    for family in families:
        found = [task for task in tasks if task.family == family]
        Random(f"tasks/{seed}/{family}").shuffle(found)
        by_family.append(found)
    for together in zip_longest(*by_family):
        yield from (task for task in together if task is not None)


def _set_aside(tasks: Sequence[Task]) -> frozenset[str]:
    """Ids of the training tasks to set aside: chosen by their ids, so the same in every run on a file that grows.

    No family loses its last task. None where they would be too few to choose by.
    """
    trained = [task for task in tasks if task.split == "train"]
    chosen = {task.id for task in trained if _digest(task.id) % SET_ASIDE == 0}
    kept = {task.family for task in trained if task.id not in chosen}
    found = frozenset(task.id for task in trained if task.id in chosen and task.family in kept)
    return found if len(found) >= FEWEST_SET_ASIDE else frozenset()


def _digest(task_id: str) -> int:
    """One byte. Another hash than that of the tasks that a world model is scored on, or it would have none left."""
    return blake2b(task_id.encode(), digest_size=1, person=b"watched").digest()[0]


def read_tasks(path: Path, environment: str, tenant: str) -> list[Task]:
    """The tasks in a JSON Lines file: on each line the fields of one ``Task``.

    ``environment`` and ``tenant`` stand in where a line leaves them out. Raises ConfigError with every bad line.
    """
    tasks: dict[str, Task] = {}
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise RecordError(f"a line holds one JSON object, got {fields!r}")
            task = from_fields(Task, json.dumps({"environment": environment, "tenant": tenant, **fields}))
        except ValueError as exc:  # a RecordError is one too
            problems.append(f"tasks.file {str(path)!r} line {number}: {exc}")
            continue
        if task.id in tasks:
            problems.append(f"tasks.file {str(path)!r} line {number}: id {task.id!r} stands there twice")
        for name, value, wanted in (
            ("environment", task.environment, environment),
            ("tenant", task.tenant, tenant),
        ):
            if value != wanted:
                problems.append(
                    f"tasks.file {str(path)!r} line {number}: {name} is {value!r}, the run's is {wanted!r}"
                )
        tasks[task.id] = task
    splits = {task.split for task in tasks.values()}
    problems += [
        f"tasks.file {str(path)!r} has no task with split {split!r}" for split in _SPLITS if split not in splits
    ]
    if problems:
        raise ConfigError(problems)
    return list(tasks.values())


_SPLITS: tuple[Split, ...] = ("train", "heldout")


def _load_verifier(path: str) -> Verifier:
    module_name, _, attribute = path.partition(":")
    try:
        verifier = getattr(import_module(module_name), attribute)()
    except (ImportError, AttributeError, TypeError) as exc:
        raise ConfigError([f"environment.verifier = {path!r} cannot be made: {exc}"]) from exc
    if not callable(getattr(verifier, "verify", None)) or not isinstance(getattr(verifier, "name", None), str):
        raise ConfigError(
            [
                f"environment.verifier = {path!r} gave a {type(verifier).__name__}; "
                "a judge has a name and verify(task, trajectory)"
            ]
        )
    judge: Verifier = verifier
    return judge
