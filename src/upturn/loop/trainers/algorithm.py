"""What an algorithm tells ``upturn train``: its section, what a run would take, and how it makes a version."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from upturn.config import Config, Settings
from upturn.loop.evaluation import ExamResult
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
    plan: Callable[[Context, AgentVersion], Plan]
    """What a run would do and take; nothing is trained or kept."""
    train: Callable[[Context, AgentVersion, ExamResult, str], AgentVersion | Learned]
    """The version that it makes of another one, given how that one did on held-out tasks and the step's name. The
    version itself where nothing was kept."""
    uses: frozenset[Use] = frozenset()
    check: Callable[[Config], object] = _accept
    """Raises ConfigError for what its section and others ask for together; called before anything is opened."""
    ready: Callable[[Context], object] = _accept
    """Raises ConfigError for what the run's environment does not have; called before anything is evaluated."""
