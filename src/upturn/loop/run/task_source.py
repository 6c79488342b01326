"""The kit of a run: the configured environment, with the configured verifier, tasks and tenant."""

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
from upturn.loop.run.measures import with_measures
from upturn.loop.run.reward_models import with_reward_models
from upturn.records import Split, Task, from_fields

DEFAULT_TENANT = "default"
"""The tenant of tasks that environments generate."""
SET_ASIDE = 8
"""One in this many of a file's training tasks is set aside for model selection, and never trained on."""
FEWEST_SET_ASIDE = 16
"""With fewer none are set aside: with 16 tasks the 95 % interval of a success rate is already up to 50 points
wide."""


def kit_of(config: Config) -> EnvironmentKit:
    """The configured kit; raises UnknownNameError for the environment, ConfigError for verifier and task file."""
    kit = resolve_kit(config.environment.name)
    tenant, path = config.pool.tenant, config.environment.verifier
    measuring = with_measures(_load_verifier(path) if path else kit.verifier, config)
    verifier = with_reward_models(measuring, tools_of(kit), config)
    if config.tasks.file:
        tasks = read_tasks(Path(config.tasks.file), kit.name, tenant)
        families = config.tasks.train_families
        trained = [task for task in tasks if not families or task.family in families]
        return FileKit(kit, verifier, tasks, aside=_set_aside(trained) if config.trains else ())
    if verifier is kit.verifier and tenant == DEFAULT_TENANT:
        return kit
    return WrappedKit(kit, verifier, tenant)


def served_families(config: Config, kit: EnvironmentKit) -> list[str]:
    """The configured families of the configured levels; by default all."""
    families, levels = config.tasks.families or tuple(kit.families), config.tasks.levels
    return [family for family in families if not levels or kit.families[family] in levels]


def trained_families(config: Config, kit: EnvironmentKit) -> list[str]:
    """The served families that are trained and evaluated."""
    served = served_families(config, kit)
    return [family for family in served if family in (config.tasks.train_families or served)]


class WrappedKit:
    """A kit with another verifier, or for another tenant."""

    def __init__(self, kit: EnvironmentKit, verifier: Verifier, tenant: str = DEFAULT_TENANT) -> None:
        self.name = kit.name
        self.families: Mapping[str, int] = kit.families
        self.verifier = verifier
        self.tools = tools_of(kit)
        self._kit = kit
        self._tenant = tenant

    def environment(self, task: Task) -> Environment:
        """An environment of the inner kit, which must be able to build its world from the task."""
        return self._kit.environment(task)

    def hint(self, task: Task) -> str | None:
        """The inner kit's hint."""
        return hint_of(self._kit, task)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """The inner kit's tasks as the tenant's, with ids that no other tenant has."""
        for task in self._kit.tasks(seed=seed, split=split, families=families):
            if self._tenant == DEFAULT_TENANT:
                yield task
            else:
                yield replace(task, tenant=self._tenant, id=f"{self._tenant}:{task.id}")


class FileKit(WrappedKit):
    """A kit with the tasks of a file, in an order that the seed determines.

    Streams of different seeds share tasks, since there are no others. Service, whose stream has one seed per run,
    uses each task once; training uses its tasks again in other iterations. Neither uses those that are set aside.
    """

    def __init__(
        self, kit: EnvironmentKit, verifier: Verifier, tasks: Sequence[Task], *, aside: Collection[str] = ()
    ) -> None:
        """``aside``: ids of the training tasks for model selection."""
        super().__init__(kit, verifier)
        self.families = {task.family: task.level for task in tasks}
        self._tasks = tuple(task for task in tasks if task.id not in aside)
        self._aside = tuple(task for task in tasks if task.id in aside)

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Each task of the split and families once, in rounds over the families."""
        return _in_rounds([task for task in self._tasks if task.split == split], seed, families)

    def set_aside(self, *, seed: int, families: Sequence[str]) -> Iterator[Task]:
        """The training tasks for model selection, in the same order; none if the file has too few."""
        return _in_rounds(self._aside, seed, families)


def _in_rounds(tasks: Sequence[Task], seed: int, families: Sequence[str]) -> Iterator[Task]:
    by_family = []
    for family in families:
        members = [task for task in tasks if task.family == family]
        Random(f"tasks/{seed}/{family}").shuffle(members)
        by_family.append(members)
    for row in zip_longest(*by_family):
        yield from (task for task in row if task is not None)


def _set_aside(tasks: Sequence[Task]) -> frozenset[str]:
    """Ids of the training tasks to set aside: a function of their ids, so stable while a file grows.

    No family loses its last task. Empty if there are too few.
    """
    trained = [task for task in tasks if task.split == "train"]
    chosen = {task.id for task in trained if _digest(task.id) % SET_ASIDE == 0}
    remaining = {task.family for task in trained if task.id not in chosen}
    aside = frozenset(task.id for task in trained if task.id in chosen and task.family in remaining)
    return aside if len(aside) >= FEWEST_SET_ASIDE else frozenset()


def _digest(task_id: str) -> int:
    """One byte, of another hash than a world model's held-out tasks have, which would all be set aside
    otherwise."""
    return blake2b(task_id.encode(), digest_size=1, person=b"watched").digest()[0]


def read_tasks(path: Path, environment: str, tenant: str) -> list[Task]:
    """The tasks in a JSON Lines file with the fields of one ``Task`` per line.

    ``environment`` and ``tenant`` are the defaults of these fields. Raises ConfigError with every bad line.
    """
    tasks: dict[str, Task] = {}
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        position = f"tasks.file {str(path)!r} line {number}"
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise RecordError(f"a line holds one JSON object, got {fields!r}")
            task = from_fields(Task, json.dumps({"environment": environment, "tenant": tenant, **fields}))
        except ValueError as exc:  # includes RecordError
            problems.append(f"{position}: {exc}")
            continue
        if task.id in tasks:
            problems.append(f"{position}: id {task.id!r} is a duplicate")
        if task.environment != environment:
            problems.append(f"{position}: environment is {task.environment!r}, the run's is {environment!r}")
        if task.tenant != tenant:
            problems.append(f"{position}: tenant is {task.tenant!r}, the run's is {tenant!r}")
        tasks[task.id] = task
    splits: tuple[Split, ...] = ("train", "heldout")
    problems += [
        f"tasks.file {str(path)!r} has no task with split {split!r}"
        for split in splits
        if not any(task.split == split for task in tasks.values())
    ]
    if problems:
        raise ConfigError(problems)
    return list(tasks.values())


def _load_verifier(path: str) -> Verifier:
    module_name, _, attribute = path.partition(":")
    try:
        verifier = getattr(import_module(module_name), attribute)()
    except (ImportError, AttributeError, TypeError) as exc:
        raise ConfigError([f"environment.verifier = {path!r} cannot be created: {exc}"]) from exc
    if not callable(getattr(verifier, "verify", None)) or not isinstance(getattr(verifier, "name", None), str):
        raise ConfigError(
            [
                f"environment.verifier = {path!r} returned a {type(verifier).__name__}; "
                "a verifier has a name and verify(task, trajectory)"
            ]
        )
    created: Verifier = verifier
    return created
