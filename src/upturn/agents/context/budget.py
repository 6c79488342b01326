"""The context budget of an agent: the settings, as parameters of an agent version."""

from collections.abc import Mapping

from upturn.errors import ConfigError
from upturn.records import JsonValue, record

_PREFIX = "context_"
_COUNTS = ("tokens", "window_turns", "observation_tokens", "summary_tokens")
_NAMES = (*_COUNTS, "low_mark")
CONTEXT_PARAMETERS = tuple(f"{_PREFIX}{name}" for name in _NAMES)
"""Names in ``AgentVersion.parameters``; all or none of them are set."""


@record
class Budget:
    """Limits on the parts of a context.

    System prompt, tools and instruction are never cut, and room for the turn's output is reserved; the rest is for
    earlier turns and the latest observation. Raises ConfigError with every unusable value.
    """

    tokens: int
    """The whole context: a turn's prompt and output."""
    window_turns: int
    """The latest turns, which stay in full where they fit."""
    observation_tokens: int
    """The longest part of an observation that is shown."""
    summary_tokens: int
    """The longest summary of a result older than the window."""
    low_mark: float
    """Share of ``tokens`` that the history is cut down to: the lower, the more rarely it is cut."""

    def __post_init__(self) -> None:
        problems = [
            f"{_PREFIX}{name} must be at least 1, got {value!r}"
            for name in _COUNTS
            if (value := getattr(self, name)) < 1
        ]
        if not 0 < self.low_mark < 1:
            problems.append(f"{_PREFIX}low_mark must lie between 0 and 1, got {self.low_mark!r}")
        for name, other in (("observation_tokens", "tokens"), ("summary_tokens", "observation_tokens")):
            value, bound = getattr(self, name), getattr(self, other)
            if value >= bound:
                problems.append(
                    f"{_PREFIX}{name} = {value!r} has no effect with {_PREFIX}{other} = {bound!r}, which is not "
                    "more; lower it"
                )
        if problems:
            raise ConfigError(problems)

    @property
    def low_tokens(self) -> int:
        """Tokens that the context is cut down to."""
        return int(self.tokens * self.low_mark)


def budget_of(parameters: Mapping[str, JsonValue]) -> Budget | None:
    """The budget in an agent version's parameters; None = no budget, the context only grows.

    Raises ConfigError for an incomplete or unusable budget.
    """
    present = {name: _number(name, value) for name, value in parameters.items() if name in CONTEXT_PARAMETERS}
    if not present:
        return None
    missing = [name for name in CONTEXT_PARAMETERS if name not in present]
    problems = [f"{', '.join(present)} need {', '.join(missing)} as well"] if missing else []
    counts = {name: present[name] for name in CONTEXT_PARAMETERS[: len(_COUNTS)] if name in present}
    problems += [f"{name} must be a whole number, got {value!r}" for name, value in counts.items() if value % 1]
    if problems:
        raise ConfigError(problems)
    integers = {name.removeprefix(_PREFIX): int(value) for name, value in counts.items()}
    return Budget(**integers, low_mark=present[f"{_PREFIX}low_mark"])


def _number(name: str, value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError([f"{name} must be a number, got {value!r}"])
    return value


def parameters_of(budget: Budget) -> dict[str, float]:
    """The inverse of ``budget_of``."""
    return {f"{_PREFIX}{name}": float(getattr(budget, name)) for name in _NAMES}
