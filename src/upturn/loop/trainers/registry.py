"""The interface of a training algorithm, the registered algorithms and their settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from upturn.config import Config, Raw, Settings, load_config, parse_config
from upturn.errors import ConfigError, UnknownNameError, error_text

if TYPE_CHECKING:
    from upturn.loop.evaluation import HeldoutResult
    from upturn.loop.run import Context
    from upturn.loop.trainers.candidate import TrainedVersion
    from upturn.loop.trainers.training_plan import Plan
    from upturn.records import AgentVersion

Use = Literal["pool", "traffic", "rollouts", "rewards", "curriculum"]
"""What an algorithm trains on. ``pool``: stored trajectories; ``traffic``: in their place the gateway's
episodes, by ``[traffic]``; ``rollouts``: fresh ones, by ``[rollouts]``;
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
    were kept, or something else was made."""
    uses: frozenset[Use] = frozenset()
    check: Callable[[Config], object] = _accept
    """Raises ConfigError for contradictions between its section and others; called before anything is opened."""
    ready: "Callable[[Context], object]" = _accept
    """Raises ConfigError for what the run's environment lacks; called before any evaluation."""
    check_ranks: Callable[[Config], object] = _accept
    """Raises ConfigError for what several processes cannot do; called where there are several."""


ALGORITHMS: Mapping[str, str] = {
    "sft": "Supervised training on the verified successes in a pool.",
    "grpo": "Reinforcement learning: trajectories of a task compared with each other; grpo.preset names a variant.",
    "ppo": "Reinforcement learning with a critic, which learns state values.",
    "distillation": "On-policy distillation: a teacher scores each token of the agent's own fresh trajectories.",
    "dpo": "DPO on pairs in a pool: two versions at the same tasks, and people's corrections.",
    "online-dpo": "DPO on pairs of the agent's own fresh trajectories.",
    "kto": "KTO on thumbs-up/down ratings in a pool.",
    "rejection": "Sample many trajectories, train on the best distinct successes, once.",
    "iterated": "Sample and train on the successes, in iterations.",
    "star": "As iterated from the start each time, with the answer as a hint where everything failed.",
    "self-repair": "As star, with what went wrong as the hint instead of the answer.",
    "rft": "Reinforcement learning on ten to fifty tasks, with controls that test whether the gain is real.",
    "world-model": "Learn to predict what the environment answers, from a pool.",
    "offline": "Policy optimisation on trajectories in a pool, with their sampler's log-probs.",
    "reward-model": "A model that scores trajectories, on pairs in a pool; a reward for later training.",
    "process-reward": "A model that scores each turn by the probability of success, on a pool.",
    "mixture": "GRPO with successes, pairs or ratings from a pool in the same optimiser steps.",
}
"""Descriptions of the registered algorithms, by the names of their commands."""
_MODULES = dict.fromkeys(("rejection", "iterated", "star", "self-repair"), "expert_iteration")
"""Modules of algorithms that are not in the module of their name."""


def algorithm(name: str) -> Algorithm:
    """The algorithm with that name or import path (``module:NAME``).

    Raises UnknownNameError for a name that is not registered, ConfigError where the import fails.
    """
    module, _, attribute = name.partition(":")
    if name in ALGORITHMS:
        attribute = section_name(name).upper()
        module = f"upturn.loop.trainers.algorithms.{_MODULES.get(name, section_name(name))}"
    elif not attribute:
        raise UnknownNameError(f"no algorithm {name!r}; known: {', '.join(ALGORITHMS)}, or module:NAME of your own")
    try:
        imported = getattr(import_module(module), attribute)
    except Exception as exc:
        raise ConfigError([f"no algorithm at {name!r}: {error_text(exc)}"]) from exc
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
    from upturn.loop.run import name_problems

    return load_config(path, environ, sections(*further), name_problems)


def parse_full_config(raw: Raw) -> Config:
    """``parse_config`` with the sections of all algorithms."""
    return parse_config(raw, sections())
