"""What a world-model stage can be told. No torch here."""

from dataclasses import dataclass, field

from upturn.training.algorithms.presets import preset
from upturn.training.settings import GrpoSettings, SftSettings
from upturn.training.validators import is_not_negative, refuse, unless, unless_missing


@dataclass(frozen=True, slots=True)
class EasySettings:
    """Which transitions the model knows before practice: nothing is learned from them."""

    rate: float = 0.875
    """Those that it predicts right at least this often; in (0, 1]."""
    attempts: int = 8
    """Predictions that the rate is of."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.rate, "easy.rate", "in (0, 1]", lambda value: 0 < value <= 1),
            unless(self.attempts, "easy.attempts", "at least 1", lambda value: value >= 1),
        )


@dataclass(frozen=True, slots=True)
class WorldModelSettings:
    """Learning to predict the next observation, before any task is practised (RWML, arXiv 2602.05842)."""

    threshold: float = 0.9
    """A prediction that is at least this alike to what came is right and earns 1, any other 0; in [0.5, 1]."""
    transitions_per_iteration: int = 32
    attempts: int = 8
    """Predictions of each transition in an iteration, which are compared with each other."""
    common_ratio: float | None = 1.0
    """Transitions with a tool's most common output are kept at most this many times as often as its others, so a
    tool with one output goes. None = all stay."""
    easy: EasySettings | None = EasySettings()
    """None = easy transitions stay."""
    warm_up: SftSettings | None = None
    """Supervised training on the next observations before practice, for a model that cannot write any: where no
    prediction of a group is right, it teaches nothing. Not part of the paper. None = none."""
    practice: GrpoSettings = field(default_factory=lambda: preset("grpo"))
    """GRPO with a KL term, to the weights that practice starts from."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        estimator = self.practice.advantage.estimator
        refuse(
            unless(self.threshold, "threshold", "in [0.5, 1]", lambda value: 0.5 <= value <= 1),
            unless(
                self.transitions_per_iteration, "transitions_per_iteration", "at least 1", lambda value: value >= 1
            ),
            unless(self.attempts, "attempts", "at least 2, to be compared", lambda value: value >= 2),
            unless_missing(self.common_ratio, "common_ratio", "0 or more, or None (all stay)", is_not_negative),
            f"practice.advantage.estimator={estimator!r} compares turns, and a prediction is a single one; "
            "take 'trajectory'"
            if estimator != "trajectory"
            else None,
            "practice.advantage.is_shaped=True would do nothing: predictions have no potentials; leave it out"
            if self.practice.advantage.is_shaped
            else None,
        )
