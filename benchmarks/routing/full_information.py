"""Coverage of off-policy intervals on full-information data, where every model's outcome on every line is known.

Each log draws lines with replacement and one model for each, so its true values are the means over the file's
lines. Logging policies: fixed shares, equal and very unequal, and the arbiter's Thompson policy, which learns while
it logs. Outcomes are those of the file, or graded: the same outcomes squeezed to .4 and .6 with noise, as a judge
gives them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from benchmarks.routing.coverage import judged
from upturn.arbiter import (
    Candidate,
    DiscountedThompson,
    LoggedOutcome,
    OffPolicyEstimate,
    Recording,
    RoutingPolicy,
    Target,
    Uniform,
    direct_method,
    doubly_robust,
    policy_gain,
    route_lines,
    running_means,
    self_normalised,
)
from upturn.records import Result, Task

WAVE = 20
RARE = 0.1
"""The share of the second model in the log with unequal shares."""


class FixedShares(Uniform):
    """Fixed probabilities, in the order of the candidates."""

    def __init__(self, shares: Sequence[float]) -> None:
        super().__init__()
        self.shares = tuple(shares)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:  # noqa: ARG002 - contract
        """Returns the shares."""
        return self.shares


@dataclass(frozen=True, slots=True)
class Cell:
    """Logs of one kind."""

    decisions: int
    logging: str
    """``equal``, ``unequal`` or ``thompson``."""
    is_graded: bool = False

    @property
    def name(self) -> str:
        """For example ``n1319_thompson``."""
        return f"n{self.decisions}_{self.logging}" + ("_graded" if self.is_graded else "")


CELLS = tuple(
    Cell(decisions, logging, is_graded)
    for is_graded in (False, True)
    for decisions in (300, 1319)
    for logging in ("equal", "unequal", "thompson")
)


class Estimand(NamedTuple):
    """A routing to estimate, with its true mean reward."""

    name: str
    shares: Mapping[str, float]
    truth: float

    @property
    def target(self) -> Target:
        """The same probabilities for every decision."""
        return lambda _decision: self.shares


def graded(recording: Recording, seed: int = 0) -> Recording:
    """Returns the recording with rewards .4 + .2 · reward and normal noise of .02, in [0, 1]."""
    noise = np.random.default_rng(seed).normal(0.0, 0.02, recording.rewards.shape)
    return replace(recording, rewards=np.clip(0.4 + 0.2 * recording.rewards + noise, 0.0, 1.0))


def estimands(recording: Recording) -> Iterator[Estimand]:
    """Each model alone, all alike, and 3 : 7 between the first two."""
    truths = dict(zip(recording.models, recording.rewards.mean(axis=0).tolist(), strict=True))
    for number, (model, truth) in enumerate(truths.items()):
        yield Estimand(f"always_{number + 1}", {model: 1.0}, truth)
    yield Estimand("equal", dict.fromkeys(truths, 1.0 / len(truths)), sum(truths.values()) / len(truths))
    first, second, *_ = recording.models
    yield Estimand("mixed", {first: 0.3, second: 0.7}, 0.3 * truths[first] + 0.7 * truths[second])


def make_log(recording: Recording, cell: Cell, rng: np.random.Generator) -> list[LoggedOutcome]:
    """Returns the outcomes of one log."""
    models = len(recording.models)
    unequal = [1.0 - RARE * (models - 1), *[RARE] * (models - 1)]
    makers: Mapping[str, Callable[[], RoutingPolicy]] = {
        "equal": Uniform,
        "unequal": lambda: FixedShares(unequal),
        "thompson": DiscountedThompson,
    }
    lines = rng.integers(len(recording.rewards), size=cell.decisions)
    return route_lines(recording, makers[cell.logging](), lines, rng=rng, wave=WAVE).log(recording)


def measure_full_information(
    recording: Recording,
    cells: Sequence[Cell] = CELLS,
    *,
    resamples: int,
    seed: int,
    has_bars: bool = True,
    on_done: Callable[[], None] = lambda: None,
) -> tuple[Result, ...]:
    """Returns the coverage of every estimator and routing in every cell, and of the gain over the logged routing.

    IPS and switch-DR have the intervals of SNIPS and DR."""
    coverages: dict[str, list[bool]] = {}
    for index, cell in enumerate(cells):
        source = graded(recording) if cell.is_graded else recording
        rng = np.random.default_rng([seed, index])
        hits: dict[str, list[bool]] = {}
        for _ in range(resamples):
            logged = make_log(source, cell, rng)
            model = running_means(logged)
            for estimand in estimands(source):
                target = estimand.target
                for estimate in (
                    self_normalised(logged, target),
                    direct_method(logged, target),
                    doubly_robust(logged, target, model),
                ):
                    _count(hits, f"{estimate.method}_{estimand.name}", estimate, estimand.truth)
                gain = policy_gain(logged, target, model)
                if gain.standard_error == 0.0:
                    continue  # the target is the logged routing: the gain is known to be 0
                _count(hits, f"gain_{estimand.name}", gain, estimand.truth - _logged_value(source, logged))
            on_done()
        coverages |= {f"{cell.name}_{name}_coverage": found for name, found in hits.items()}
    return judged(coverages, has_bars=has_bars)


def _logged_value(recording: Recording, logged: Sequence[LoggedOutcome]) -> float:
    """Returns the true mean reward of the probabilities in the log."""
    shares = np.array([[option.probability for option in outcome.decision.alternatives] for outcome in logged])
    return float(shares.mean(axis=0) @ recording.rewards.mean(axis=0))


def _count(hits: dict[str, list[bool]], name: str, estimate: OffPolicyEstimate, truth: float) -> None:
    if estimate.low is not None and estimate.high is not None:
        hits.setdefault(name, []).append(estimate.low <= truth <= estimate.high)
