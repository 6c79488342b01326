"""What learning from one's own successes can be told, and the named ways of doing it. No torch here.

All of them are rounds of: attempt tasks with the present weights, select what went well, train supervised on
it. They differ in three things: how many rounds, whether a round trains the weights from before training or
goes on with those of the round before, and whether what failed is attempted a second time with help.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from upturn.errors import ConfigError
from upturn.training.run_settings import Keep, plan_problems
from upturn.training.settings import Decay, OptimiserSettings
from upturn.training.validators import is_positive, refuse, unless, unless_missing, useless

Prefer = Literal["reward", "shortest", "diverse"]
"""Which of a task's successes go first. ``reward``: the highest. ``shortest``: the fewest turns, then the
fewest written tokens. ``diverse``: the one with the highest reward, then always the one least like those chosen
already."""
SecondKind = Literal["rationalisation", "self_repair"]
"""What helps a second attempt. ``rationalisation``: the answer (STaR). ``self_repair``: what went wrong the
first time, which tells no answer."""


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """Which attempts are learned from."""

    threshold: float = 0.8
    """What an attempt must have earned over all its turns to be a success; as where supervised training takes
    successes from the pool."""
    top: int | None = None
    """The most that are kept of one task in a round, over all its groups, so that easy tasks do not crowd out the
    others; None = all."""
    prefer: Prefer = "reward"
    distinct: bool = True
    """Whether attempts at a task that wrote the same tokens count once."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.threshold, "selection.threshold", "finite", math.isfinite),
            unless_missing(self.top, "selection.top", "at least 1 or None (all)", is_positive),
            useless(
                self.top is None and self.prefer != "reward",
                f"selection.prefer={self.prefer!r}",
                "with selection.top=None, where every success is kept; set top, or leave prefer out",
            ),
        )


@dataclass(frozen=True, slots=True)
class SecondSettings:
    """Second attempts, with help, at tasks of which no attempt succeeded."""

    kind: SecondKind
    mentions: tuple[str, ...] = ("hint",)
    """Words that give away that there was help: attempts that write one are not learned from. Whole words, in any
    case. Attempts that repeat the help itself never are."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            None
            if all(word.strip() for word in self.mentions)
            else f"second.mentions must be words, got {self.mentions!r}"
        )


@dataclass(frozen=True, slots=True)
class ImitationSettings:
    """Rounds of supervised training on what the model itself did well."""

    rounds: int = 5
    selection: SelectionSettings = SelectionSettings()
    restart: bool = False
    """Whether each round trains the weights from before training, with a new optimiser; a round samples with
    what the round before trained all the same. Keeps a copy of these weights."""
    second: SecondSettings | None = None
    """None = what failed is not attempted again."""
    epochs: int = 4
    """Of each round, over what it selected."""
    batch_rows: int = 32
    """Rows of one optimiser step."""
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-3)  # noqa: RUF009
    decay: Decay = "none"
    """How the learning rate falls within each round; warm-up too is at the start of each."""
    evaluate_every: int | None = 1
    """Rounds between two evaluations; None = never evaluated. The first comes before any training."""
    target_score: float | None = None
    """Training stops once an evaluation reaches it; None = no target."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these costs may be in an evaluation: weights that cost more are never kept, and a run
    that leaves the limits, once within them, stops."""
    keep: Keep = "best"
    checkpoint_every: int = 1
    """Rounds between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.rounds, "rounds", "at least 1", is_positive),
            unless(self.epochs, "epochs", "at least 1", is_positive),
            unless(self.batch_rows, "batch_rows", "at least 1", is_positive),
            useless(
                self.restart and self.rounds == 1,
                "restart",
                "with rounds=1: the only round starts from the weights from before training anyway. Set more "
                "rounds, or leave it out",
            ),
            *plan_problems(self),
        )


@dataclass(frozen=True, slots=True)
class ImitationPreset:
    """One named way."""

    settings: ImitationSettings
    source: str
    departures: tuple[str, ...] = ()
    """What differs from the source, each with its reason."""


def imitation(name: str) -> ImitationSettings:
    """The settings of a named way; raises ConfigError for a name that is not in ``IMITATIONS``."""
    found = IMITATIONS.get(name)
    if found is None:
        raise ConfigError([f"unknown way of imitation {name!r}; known: {', '.join(IMITATIONS)}"])
    return found.settings


_OWN_STEPS = (
    "passes over what was kept instead of step counts that grow by 20 % a round: more successes are more steps by "
    "themselves"
)

IMITATIONS: Mapping[str, ImitationPreset] = MappingProxyType(
    {
        "rejection": ImitationPreset(
            ImitationSettings(rounds=1, selection=SelectionSettings(top=4)),
            "Rejection-sampling fine-tuning, arXiv 2308.01825: many attempts at each task, the distinct right ones "
            "trained on, once",
            (
                "at most 4 of a task: the paper keeps all, and easy tasks then outnumber the others",
                "distinct by written tokens: the paper compares the equations in them, which most tasks lack",
            ),
        ),
        "iterated": ImitationPreset(
            ImitationSettings(selection=SelectionSettings(top=4)),
            "Expert iteration, arXiv 1705.08439, for language models 2308.08998: each round goes on from the last",
            ("the threshold stays: raising it from round to round needs rewards finer than success",),
        ),
        "star": ImitationPreset(
            ImitationSettings(restart=True, second=SecondSettings("rationalisation")),
            "STaR, arXiv 2203.14465, algorithm 1: what failed is attempted again with the answer as a hint, "
            "successes are trained on as if there had been none, each round from the weights before training",
            (
                _OWN_STEPS,
                "attempts are sampled, several of each task: the paper takes one greedy one",
                "a round without any success leaves the weights as they are instead of going back",
            ),
        ),
        "self_repair": ImitationPreset(
            ImitationSettings(restart=True, second=SecondSettings("self_repair")),
            "Self-repair: as STaR, but the second attempt is told what went wrong in the first, not the answer",
            ("not STaR, although it goes by that name in places: nothing is rationalised",),
        ),
    }
)
"""By name."""
