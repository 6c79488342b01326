"""Coverage of off-policy intervals on the logs of a learning policy.

Each log is made by the arbiter's own Thompson policy, which learns while it logs, so an agent's share of the log
depends on how well it did at first. Agents succeed independently at fixed rates by family. Nothing is refused, so
the coverage is that of every estimate that is shown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.routing.coverage import judged
from upturn.arbiter import (
    Candidate,
    DiscountedThompson,
    LoggedOutcome,
    OffPolicyEstimate,
    RoutingOutcome,
    Target,
    always,
    doubly_robust,
    inverse_propensity,
    running_means,
    self_normalised,
)
from upturn.records import Alternative, Decision, Result, Task

RATES: Mapping[str, Mapping[str, float]] = {
    "mail": {"a@1": 0.85, "b@1": 0.50, "c@1": 0.30},
    "chat": {"a@1": 0.50, "b@1": 0.47, "c@1": 0.60},
    "book": {"a@1": 0.70, "b@1": 0.45, "c@1": 0.20},
    "deck": {"a@1": 0.30, "b@1": 0.44, "c@1": 0.40},
}
"""Success rate by family and version; families are equally frequent."""
VERSIONS = ("a@1", "b@1", "c@1")
WAVE = 20
"""Decisions between two updates of the policy."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Logs of one size."""

    decisions: int
    floor: float
    """Exploration floor of the logging policy."""


CELLS = tuple(Cell(decisions, floor) for decisions in (100, 300, 1000) for floor in (0.02, 0.05))


class Estimand(NamedTuple):
    """A routing to estimate, and its true mean reward."""

    name: str
    target: Target
    truth: float


def estimands() -> Iterator[Estimand]:
    """Each agent alone, all alike, and the best agent of every family."""
    for version in VERSIONS:
        truth = sum(rates[version] for rates in RATES.values()) / len(RATES)
        yield Estimand(f"always_{version[0]}", always(version), truth)
    uniform = dict.fromkeys(VERSIONS, 1.0 / len(VERSIONS))
    mean = sum(sum(rates.values()) / len(rates) for rates in RATES.values()) / len(RATES)
    yield Estimand("uniform", lambda _: uniform, mean)
    best = {family: max(rates, key=rates.__getitem__) for family, rates in RATES.items()}
    value = sum(RATES[family][version] for family, version in best.items()) / len(RATES)
    yield Estimand("best_by_family", lambda decision: {best[decision.family]: 1.0}, value)


def make_log(cell: Cell, rng: np.random.Generator) -> list[LoggedOutcome]:
    """The outcomes of a policy that learns after every wave."""
    policy = DiscountedThompson(floor=cell.floor)
    candidates = [Candidate(version[0], version) for version in VERSIONS]
    families, logged = tuple(RATES), list[LoggedOutcome]()
    while len(logged) < cell.decisions:
        shares = {
            family: dict(zip(VERSIONS, policy.probabilities(Task("t", "", family, "toy"), candidates), strict=True))
            for family in families
        }
        wave = [
            _log(f"{len(logged) + index}", families[int(rng.integers(len(families)))], shares, rng)
            for index in range(min(WAVE, cell.decisions - len(logged)))
        ]
        for outcome in wave:
            policy.learn(outcome.decision, RoutingOutcome(outcome.decision.id, outcome.reward))
        logged += wave
    return logged


def _log(
    name: str, family: str, shares: Mapping[str, Mapping[str, float]], rng: np.random.Generator
) -> LoggedOutcome:
    chances = shares[family]
    chosen = str(rng.choice(VERSIONS, p=[chances[version] for version in VERSIONS]))
    decision = Decision(
        id=name,
        task_id=name,
        family=family,
        tenant="default",
        policy="thompson",
        policy_snapshot="",
        alternatives=tuple(Alternative(version, chance, None) for version, chance in chances.items()),
        agent=chosen[0],
        chosen=chosen,
        propensity=chances[chosen],
        reason="",
    )
    return LoggedOutcome(decision, float(rng.random() < RATES[family][chosen]))


def measure_coverage(
    cells: Sequence[Cell],
    *,
    logs: int,
    seed: int,
    has_bars: bool = True,
    on_done: Callable[[], None] = lambda: None,
) -> tuple[Result, ...]:
    """The coverage of every estimator and estimand in every cell, and the bias of the estimates."""
    coverages: dict[str, list[bool]] = {}
    biases: list[Result] = []
    for index, cell in enumerate(cells):
        rng = np.random.default_rng([seed, index])
        covered: dict[tuple[str, str], list[bool]] = {}
        values: dict[tuple[str, str], list[float]] = {}
        for _ in range(logs):
            logged = make_log(cell, rng)
            model = running_means(logged)
            for estimand in estimands():
                for estimate in (
                    inverse_propensity(logged, estimand.target),
                    self_normalised(logged, estimand.target),
                    doubly_robust(logged, estimand.target, model),
                ):
                    _count(estimate, estimand, covered, values)
            on_done()
        truths = {estimand.name: estimand.truth for estimand in estimands()}
        for (method, name), hits in covered.items():
            prefix = f"n{cell.decisions}_floor{cell.floor:g}_{method}_{name}"
            coverages[f"{prefix}_coverage"] = hits
            bias = float(np.mean(values[method, name])) - truths[name]
            biases.append(Result(f"{prefix}_bias", bias, "reward", n=len(hits)))
    return (*judged(coverages, has_bars=has_bars), *biases)


def _count(
    estimate: OffPolicyEstimate,
    estimand: Estimand,
    covered: dict[tuple[str, str], list[bool]],
    values: dict[tuple[str, str], list[float]],
) -> None:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return
    key = (estimate.method, estimand.name)
    covered.setdefault(key, []).append(estimate.low <= estimand.truth <= estimate.high)
    values.setdefault(key, []).append(estimate.value)
