"""Sizes of the measurements of programs."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparison import Bar
from benchmarks.program.chat_models import MIDDLE
from benchmarks.program.talk import Talk
from benchmarks.workloads import ModelSpec


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurements."""

    parallel: int = 32
    talk: Talk = field(default_factory=Talk)
    model: ModelSpec = MIDDLE
    """The random model with a chat template, beside the shipped one."""
    threads: int = 1
    """Of each implementation."""
    repetitions: int = 3
    attempts: int = 1_000
    """Of programs in trouble."""
    iterations: int = 6
    seeds: int = 3
    heldout: int = 100
    has_bars: bool = True
    litellm: Path | None = None
    """The executable of LiteLLM in an environment of its own; None = its upstream is called directly."""
    log: Callable[[str], None] = field(default=lambda _: None)

    def bar(self, limit: float, *, is_upper: bool = False) -> Bar | None:
        """The bar; None = the sizes are too small for one."""
        return Bar(limit, is_upper) if self.has_bars else None


QUICK = Plan(
    parallel=4,
    talk=Talk(turns=2, max_tokens=4),
    model=ModelSpec(width=64, layers=2),
    repetitions=1,
    attempts=18,
    iterations=1,
    seeds=1,
    heldout=20,
    has_bars=False,
)


def load() -> float:
    """Processes that want a core, averaged over a minute: figures of a busy machine are worth less."""
    return round(os.getloadavg()[0], 2)
