"""An environment kit: everything the loop needs to let agents work somewhere, found by name or import path."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from upturn.environments.environment import Environment, Verifier
from upturn.errors import UnknownNameError, described
from upturn.records import Split, Task, Tool

_REGISTERED = {
    "office": "upturn.environments.office.kit:OfficeKit",
    "errands": "upturn.environments.errands.kit:ErrandsKit",
}


@runtime_checkable
class EnvironmentKit(Protocol):
    """Makes environments, judges finished attempts in them and generates tasks."""

    @property
    def name(self) -> str:
        """As tasks name it in ``Task.environment``."""

    @property
    def families(self) -> Mapping[str, int]:
        """Task families and their level, in the order they are shown."""

    @property
    def verifier(self) -> Verifier:
        """The judge of finished attempts."""

    def environment(self, task: Task) -> Environment:
        """A new environment for one attempt at the task; not reset yet."""

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Tasks of these families in rounds (each family once a round), without end where they are generated.

        The same arguments give the same tasks; different seeds share none; training and held-out tasks differ in
        template and seed.
        """


@runtime_checkable
class DescribedKit(Protocol):
    """A kit that also says what agents can do there, for models that are given descriptions. Optional."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Everything that an action can ask for."""


@runtime_checkable
class RubricKit(Protocol):
    """A kit with further verifiers of the same attempts, such as a rubric of more components. Optional."""

    @property
    def further_verifiers(self) -> Sequence[Verifier]:
        """A run may choose one; their names differ from each other's and the kit's own."""


@runtime_checkable
class CachingKit(Protocol):
    """A kit that keeps what its tasks share once it was made. Optional."""

    def forget(self) -> None:
        """Drops all of it: the next task takes as long to begin as the first one did."""


def tools_of(kit: EnvironmentKit) -> tuple[Tool, ...]:
    """The tools the kit describes; empty where it describes none, and its models must know them otherwise."""
    return tuple(kit.tools) if isinstance(kit, DescribedKit) else ()


def verifiers_of(kit: EnvironmentKit) -> tuple[Verifier, ...]:
    """The kit's own verifier, then its further ones."""
    return (kit.verifier, *(kit.further_verifiers if isinstance(kit, RubricKit) else ()))


def registered_kits() -> tuple[str, ...]:
    """The names that need no import path."""
    return tuple(_REGISTERED)


def resolve_kit(name: str) -> EnvironmentKit:
    """The kit registered under ``name``, or found or made at ``module:factory``; raises UnknownNameError."""
    path = _REGISTERED.get(name, name)
    module_name, separator, attribute = path.partition(":")
    if not separator:
        known = ", ".join(_REGISTERED)
        raise UnknownNameError(f"unknown environment {name!r}; known: {known}; or name your own as module:factory")
    try:
        factory = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:  # the last two: no such path can exist
        raise UnknownNameError(
            f"environment {name!r} cannot be imported: {exc}; the module must be importable from here"
        ) from exc
    except (Exception, SystemExit) as exc:  # foreign code: whatever it does when it is imported
        raise UnknownNameError(
            f"environment {name!r} cannot be imported: {described(exc)}; its module must load without error"
        ) from exc
    try:
        kit = factory() if callable(factory) else factory
    except TypeError as exc:
        raise UnknownNameError(
            f"environment {name!r} could not be made: {exc}; its factory is called without arguments"
        ) from exc
    except (Exception, SystemExit) as exc:
        raise UnknownNameError(
            f"environment {name!r} could not be made: {described(exc)}; its factory must not fail"
        ) from exc
    if not isinstance(kit, EnvironmentKit):
        raise UnknownNameError(
            f"environment {name!r} gave a {type(kit).__name__}, which is no EnvironmentKit: it needs name, "
            "families, verifier, environment(task) and tasks(seed, split, families)"
        )
    return kit
