"""Sections that belong to several ways of learning, and refusing them where they would do nothing."""

from collections.abc import Iterator

from upturn.config import Config
from upturn.errors import ConfigError

_GUIDED = ("grpo", "ppo")
_PRACTISING = ("grpo", "ppo", "dpo-rounds", "rejection", "iterated", "star", "self-repair", "rft", "mixture")
_REWARDED = (*(way for way in _PRACTISING if way != "rft"), "offline")


def check_effect(config: Config, algorithm: str) -> None:
    """Raises ConfigError with every setting that this way of learning would not look at, though it was chosen."""
    problems = list(_idle(config, algorithm))
    if problems:
        raise ConfigError(problems)


def _idle(config: Config, algorithm: str) -> Iterator[str]:
    command = f"`upturn train {algorithm}`"
    if config.curriculum.policy is not None and algorithm not in _GUIDED:
        yield (
            f"curriculum.policy = {config.curriculum.policy!r} has no effect with {command}: a curriculum guides "
            f"{' and '.join(_GUIDED)}; leave it out"
        )
    if config.rollouts.place != "process" and algorithm not in _PRACTISING:
        yield (
            f"rollouts.place = {config.rollouts.place!r} has no effect with {command}, which attempts no tasks to "
            "learn from; leave it out"
        )
    if config.rewards.overlong_tokens is not None and algorithm not in _REWARDED:
        why = "has a reward of its own" if algorithm == "rft" else "learns from no rewards"
        yield (
            f"rewards.overlong_tokens = {config.rewards.overlong_tokens} has no effect with {command}, which "
            f"{why}; leave it out"
        )
