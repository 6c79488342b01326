"""What an algorithm tells ``upturn train``, those that it knows, one line each, and their sections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from upturn.config import Config, Raw, Settings, load_config, parse_config
from upturn.errors import ConfigError, UnknownNameError, error_text

if TYPE_CHECKING:
    from upturn.loop.evaluation import HeldoutResult
    from upturn.loop.run import Context
    from upturn.loop.trainers.candidate import Learned
    from upturn.loop.trainers.training_plan import Plan
    from upturn.records import AgentVersion

Use = Literal["pool", "rollouts", "rewards", "curriculum"]
"""What an algorithm learns from. ``pool``: trajectories that a pool holds before training; ``rollouts``: fresh
ones, by ``[rollouts]``; ``rewards``: the configured rewards, penalties included; ``curriculum``: tasks chosen by
``[curriculum]``. What it does not use is refused where it is configured."""


def _accept(_: object) -> None:
    """Nothing to check."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way of learning. The name of its command, and with underscores of its section, stands in the registry."""

    settings: type[Settings]
    """Its section of ``upturn.toml``; the settings check themselves."""
    plan: "Callable[[Context, AgentVersion], Plan]"
    """What a run would do and take; nothing is trained or kept."""
    train: "Callable[[Context, AgentVersion, HeldoutResult, str], AgentVersion | Learned]"
    """The version that it makes of another one, given how that one did on held-out tasks and the step's name. The
    version itself where nothing was kept."""
    uses: frozenset[Use] = frozenset()
    check: Callable[[Config], object] = _accept
    """Raises ConfigError for what its section and others ask for together; called before anything is opened."""
    ready: "Callable[[Context], object]" = _accept
    """Raises ConfigError for what the run's environment does not have; called before anything is evaluated."""


class Registered(NamedTuple):
    """Where an algorithm is, and what it does."""

    path: str
    """``module:NAME`` of an ``Algorithm``."""
    summary: str
    """For the list of commands."""


_HERE = "upturn.loop.trainers"
ALGORITHMS: Mapping[str, Registered] = {
    "sft": Registered(f"{_HERE}.sft:SFT", "Supervised training on the verified successes in a pool."),
    "grpo": Registered(
        f"{_HERE}.grpo:GRPO",
        "Reinforcement learning: trajectories of a task compared with each other; grpo.preset names a variant.",
    ),
    "ppo": Registered(f"{_HERE}.ppo:PPO", "Reinforcement learning with a critic, which learns state values."),
    "dpo": Registered(
        f"{_HERE}.dpo:DPO", "DPO on pairs in a pool: two versions at the same tasks, and people's corrections."
    ),
    "online-dpo": Registered(
        f"{_HERE}.online_dpo:ONLINE_DPO", "DPO on pairs of the agent's own fresh trajectories."
    ),
    "kto": Registered(f"{_HERE}.kto:KTO", "KTO on thumbs-up/down ratings in a pool."),
    "rejection": Registered(
        f"{_HERE}.expert_iteration:REJECTION",
        "Sample many trajectories, train on the best distinct successes, once.",
    ),
    "iterated": Registered(
        f"{_HERE}.expert_iteration:ITERATED", "Sample and train on the successes, in iterations."
    ),
    "star": Registered(
        f"{_HERE}.expert_iteration:STAR",
        "As iterated from the start each time, with the answer as a hint where everything failed.",
    ),
    "self-repair": Registered(
        f"{_HERE}.expert_iteration:SELF_REPAIR", "As star, with what went wrong as the hint instead of the answer."
    ),
    "rft": Registered(
        f"{_HERE}.rft:RFT",
        "Reinforcement from ten to fifty tasks, with controls that say whether the gain is real.",
    ),
    "world-model": Registered(
        f"{_HERE}.world_model:WORLD_MODEL", "Learn to predict what the environment answers, from a pool."
    ),
    "offline": Registered(
        f"{_HERE}.offline:OFFLINE", "Policy optimisation on trajectories in a pool, with their sampler's log-probs."
    ),
    "mixture": Registered(
        f"{_HERE}.mixture:MIXTURE", "GRPO with successes, pairs or ratings from a pool in the same optimiser steps."
    ),
}
"""By the name of the command."""


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name, or at that import path (``module:NAME``).

    Raises UnknownNameError for a name that is not registered, ConfigError where nothing is at an import path.
    """
    path = name if ":" in name else ALGORITHMS[name].path if name in ALGORITHMS else ""
    if not path:
        raise UnknownNameError(f"no algorithm {name!r}; known: {', '.join(ALGORITHMS)}, or module:NAME of your own")
    module, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as exc:
        raise ConfigError([f"no algorithm at {name!r}: {error_text(exc)}"]) from exc
    if not isinstance(found, Algorithm):
        raise ConfigError([f"{name!r} is a {type(found).__name__}, not an upturn.loop.trainers.Algorithm"])
    return found


def run_name(name: str) -> str:
    """What its runs and versions are called: of ``module:NAME`` the NAME in lower case."""
    return name.rpartition(":")[2].lower().replace("_", "-")


def section_name(name: str) -> str:
    """The section of an algorithm."""
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
