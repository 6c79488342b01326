"""The interface of a training algorithm, the registered algorithms and their settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from upturn.config import Config, Raw, Settings, load_config, parse_config
from upturn.errors import ConfigError, UnknownNameError, described

if TYPE_CHECKING:
    from upturn.loop.evaluation import HeldoutResult
    from upturn.loop.run import Context
    from upturn.loop.trainers.candidate import TrainedVersion
    from upturn.loop.trainers.training_plan import Plan
    from upturn.records import AgentVersion

Use = Literal["pool", "rollouts", "rewards", "curriculum"]
"""What an algorithm trains on. ``pool``: stored trajectories; ``rollouts``: fresh ones, by ``[rollouts]``;
``rewards``: the configured rewards, penalties included; ``curriculum``: tasks chosen by ``[curriculum]``. It is an
error to configure what the algorithm does not use."""


def _accept(_: object) -> None:
    """Checks nothing."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A training algorithm. The registry has the name of its command, which is its section's with hyphens."""

    settings: type[Settings]
    """Its section of ``upturn.toml``."""
    plan: "Callable[[Context, AgentVersion], Plan]"
    """Estimated cost of a run; nothing is trained or stored."""
    train: "Callable[[Context, AgentVersion, HeldoutResult, str], AgentVersion | TrainedVersion]"
    """Trains a version, with its held-out result and the step's name; returns the version itself where no weights
    were kept."""
    uses: frozenset[Use] = frozenset()
    check: Callable[[Config], object] = _accept
    """Raises ConfigError for contradictions between its section and others; called before anything is opened."""
    ready: "Callable[[Context], object]" = _accept
    """Raises ConfigError for what the run's environment lacks; called before any evaluation."""


class Registered(NamedTuple):
    """An algorithm's location and description."""

    path: str
    """``module:NAME`` of an ``Algorithm``."""
    summary: str
    """For the list of commands."""


_ROOM = "upturn.loop.trainers"
ALGORITHMS: Mapping[str, Registered] = {
    "sft": Registered(f"{_ROOM}.sft:SFT", "Supervised training on the verified successes in a pool."),
    "grpo": Registered(
        f"{_ROOM}.grpo:GRPO",
        "Reinforcement learning: trajectories of a task compared with each other; grpo.preset names a variant.",
    ),
    "ppo": Registered(f"{_ROOM}.ppo:PPO", "Reinforcement learning with a critic, which learns state values."),
    "dpo": Registered(
        f"{_ROOM}.dpo:DPO", "DPO on pairs in a pool: two versions at the same tasks, and people's corrections."
    ),
    "online-dpo": Registered(
        f"{_ROOM}.online_dpo:ONLINE_DPO", "DPO on pairs of the agent's own fresh trajectories."
    ),
    "kto": Registered(f"{_ROOM}.kto:KTO", "KTO on thumbs-up/down ratings in a pool."),
    "rejection": Registered(
        f"{_ROOM}.expert_iteration:REJECTION",
        "Sample many trajectories, train on the best distinct successes, once.",
    ),
    "iterated": Registered(
        f"{_ROOM}.expert_iteration:ITERATED", "Sample and train on the successes, in iterations."
    ),
    "star": Registered(
        f"{_ROOM}.expert_iteration:STAR",
        "As iterated from the start each time, with the answer as a hint where everything failed.",
    ),
    "self-repair": Registered(
        f"{_ROOM}.expert_iteration:SELF_REPAIR", "As star, with what went wrong as the hint instead of the answer."
    ),
    "rft": Registered(
        f"{_ROOM}.rft:RFT",
        "Reinforcement learning on ten to fifty tasks, with controls that test whether the gain is real.",
    ),
    "world-model": Registered(
        f"{_ROOM}.world_model:WORLD_MODEL", "Learn to predict what the environment answers, from a pool."
    ),
    "offline": Registered(
        f"{_ROOM}.offline:OFFLINE", "Policy optimisation on trajectories in a pool, with their sampler's log-probs."
    ),
    "mixture": Registered(
        f"{_ROOM}.mixture:MIXTURE", "GRPO with successes, pairs or ratings from a pool in the same optimiser steps."
    ),
}
"""By the name of the command."""


def algorithm(name: str) -> Algorithm:
    """The algorithm with that name or import path (``module:NAME``).

    Raises UnknownNameError for a name that is not registered, ConfigError where the import fails.
    """
    path = name if ":" in name else ALGORITHMS[name].path if name in ALGORITHMS else ""
    if not path:
        raise UnknownNameError(f"no algorithm {name!r}; known: {', '.join(ALGORITHMS)}, or module:NAME of your own")
    module, _, attribute = path.partition(":")
    try:
        imported = getattr(import_module(module), attribute)
    except Exception as exc:
        raise ConfigError([f"no algorithm at {name!r}: {described(exc)}"]) from exc
    if not isinstance(imported, Algorithm):
        raise ConfigError([f"{name!r} is a {type(imported).__name__}, not an upturn.loop.trainers.Algorithm"])
    return imported


def run_name(name: str) -> str:
    """Prefix of its runs and versions; for ``module:NAME`` the NAME in lower case."""
    return name.rpartition(":")[2].lower().replace("_", "-")


def section_name(name: str) -> str:
    """Name of an algorithm's section."""
    return run_name(name).replace("-", "_")


def sections(*further: str) -> Mapping[str, type[Settings]]:
    """The sections of all registered algorithms and ``further`` ones, by name."""
    return {section_name(name): algorithm(name).settings for name in (*ALGORITHMS, *further)}


def load_full_config(path: Path, environ: Mapping[str, str], *further: str) -> Config:
    """``load_config`` with the sections of all algorithms; ``further``: import paths of others."""
    return load_config(path, environ, sections(*further))


def parse_full_config(raw: Raw) -> Config:
    """``parse_config`` with the sections of all algorithms."""
    return parse_config(raw, sections())
