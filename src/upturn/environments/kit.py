"""An environment kit: everything the loop needs to run agents in an environment, by name or import path."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from upturn.environments.environment import Environment, Verifier
from upturn.errors import UnknownNameError, UpturnError, WorldError, error_text
from upturn.records import Split, Task, Tool

_REGISTERED = {
    "office": "upturn.environments.office.kit:OfficeKit",
    "repair": "upturn.environments.repair.kit:RepairKit",
    "repair-impossible": "upturn.environments.repair.kit:impossible_kit",
}


@runtime_checkable
class EnvironmentKit(Protocol):
    """Makes environments, verifies trajectories and generates tasks."""

    @property
    def name(self) -> str:
        """The name in ``Task.environment``."""

    @property
    def families(self) -> Mapping[str, int]:
        """Task families and their level, in display order."""

    @property
    def verifier(self) -> Verifier:
        """Grades finished trajectories."""

    def environment(self, task: Task) -> Environment:
        """A new environment for one rollout of the task; not reset yet."""

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Tasks of these families in rounds (each family once a round); endless where they are generated.

        The same arguments give the same tasks; different seeds share none; training and held-out tasks differ in
        template and seed.
        """


@runtime_checkable
class DescribedKit(Protocol):
    """A kit that describes its tools, for models that get descriptions. Optional."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Every operation of an action."""


@runtime_checkable
class RubricKit(Protocol):
    """A kit with further verifiers of the same trajectories, such as a finer rubric. Optional."""

    @property
    def further_verifiers(self) -> Sequence[Verifier]:
        """A run may choose one; their names differ from each other's and the kit's own."""


@runtime_checkable
class CachingKit(Protocol):
    """A kit that caches data shared by its tasks. Optional."""

    def forget(self) -> None:
        """Clears the cache: the next task starts as slowly as the first."""


def tools_of(kit: EnvironmentKit) -> tuple[Tool, ...]:
    """The kit's tools; empty where it describes none."""
    return tuple(kit.tools) if isinstance(kit, DescribedKit) else ()


def verifiers_of(kit: EnvironmentKit) -> tuple[Verifier, ...]:
    """The kit's own verifier, then its further ones."""
    return (kit.verifier, *(kit.further_verifiers if isinstance(kit, RubricKit) else ()))


def registered_kits() -> tuple[str, ...]:
    """The names that need no import path."""
    return tuple(_REGISTERED)


def draw_tasks(kit: EnvironmentKit, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
    """The kit's tasks; raises WorldError where the kit raises anything but an error of ours."""
    try:
        yield from kit.tasks(seed=seed, split=split, families=families)
    except UpturnError:
        raise
    except (Exception, SystemExit) as exc:  # third-party code
        raise WorldError(
            f"environment {kit.name!r} cannot draw {split} tasks of seed {seed}: {error_text(exc)}; its tasks() "
            "must not fail"
        ) from exc


def resolve_kit(name: str) -> EnvironmentKit:
    """The kit registered under ``name``, or at ``module:factory``; raises UnknownNameError."""
    path = _REGISTERED.get(name, name)
    module_name, separator, attribute = path.partition(":")
    if not separator:
        known = ", ".join(_REGISTERED)
        raise UnknownNameError(f"unknown environment {name!r}; known: {known}; or give module:factory")
    try:
        factory = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:  # the last two: an impossible path
        raise UnknownNameError(
            f"environment {name!r} cannot be imported: {exc}; the module must be importable from here"
        ) from exc
    except (Exception, SystemExit) as exc:  # third-party code may raise anything on import
        raise UnknownNameError(
            f"environment {name!r} cannot be imported: {error_text(exc)}; its module must load without error"
        ) from exc
    try:
        kit = factory() if callable(factory) else factory
    except TypeError as exc:
        raise UnknownNameError(
            f"environment {name!r} could not be created: {exc}; its factory is called without arguments"
        ) from exc
    except (Exception, SystemExit) as exc:
        raise UnknownNameError(
            f"environment {name!r} could not be created: {error_text(exc)}; its factory must not fail"
        ) from exc
    if not isinstance(kit, EnvironmentKit):
        raise UnknownNameError(
            f"environment {name!r} gave a {type(kit).__name__}, not an EnvironmentKit: it needs name, "
            "families, verifier, environment(task) and tasks(seed, split, families)"
        )
    return kit
