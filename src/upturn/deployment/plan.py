"""The design of a release: how many tasks validation and canary need, for how long, with which error rates.

Nothing is derived from formulas of its own: validations are simulated with ``validate`` and canaries with
``simulation.simulate``, the code that decides real releases.

Simulated versions succeed independently of each other on the same task. Real versions often agree on the easy and
the hard tasks, so a real validation usually needs fewer tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.rule import PROMOTE
from upturn.deployment.simulation import Outcome, Scenario, simulate
from upturn.deployment.validation import Pair, ValidationVerdict, validate
from upturn.interval import Interval, clopper_pearson_interval
from upturn.records import Result

FALSE_FAILURES = 0.1
"""Largest share of unchanged candidates that a validation may fail. With any number of tasks, Holm over families
alone fails up to alpha = 5 %, and the overall comparison 2.5 %."""
POWER = 0.9
"""Share of better candidates that pass validation with the planned number of tasks."""
MAX_TASKS = 50_000
"""Largest number of validation tasks that is tried."""
PLAN_STEPS = 5
"""Parts of a plan."""
_RESAMPLES = 400
"""Bootstrap resamples of a simulated validation. An unchanged candidate passes in 2.8 % with 200, in 2.2 % with
1,000 (1,500 validations each)."""
_SEARCH_RUNS = 100
"""Largest number of validations for each number of tasks that is tried. The shares of a plan come from more."""
_STEPS = 2
"""Halvings of the bracket around the number of tasks, which ends within a quarter of its lower end."""


@dataclass(frozen=True, slots=True)
class HeldoutDesign:
    """True rates and the shape of the held-out tasks. Raises ValueError for rates outside of [0, 1]."""

    rates: tuple[float, ...]
    """Success rate of the incumbent in every family; all families have the same number of tasks."""
    effect: float = 0.0
    """Success rate of the candidate minus the incumbent's; 0 = an unchanged candidate."""
    session_tasks: int = 1
    """Tasks of an episode, all of one family."""
    correlation: float = 0.0
    """Of two tasks' success within an episode."""

    def __post_init__(self) -> None:
        if self.effect < 0.0 or not all(0.0 <= rate <= 1.0 for rate in self.rates):
            raise ValueError(
                f"success rates must be in [0, 1] and an effect 0 or more, got {self.rates!r} and {self.effect!r}"
            )


class ValidationShares(NamedTuple):
    """How simulated validations ended."""

    passed: Interval
    """With exact 95 % limits."""
    failed: Interval


def validation_shares(
    design: HeldoutDesign, tasks: int, settings: ValidationSettings, *, runs: int, seed: int
) -> ValidationShares:
    """The shares of ``runs`` validations on at least ``tasks`` tasks, in whole episodes, that pass and fail."""
    verdicts = list(_verdicts(design, tasks, settings, runs=runs, seed=seed))
    return ValidationShares(
        *(clopper_pearson_interval(verdicts.count(verdict), runs) for verdict in ("pass", "fail"))
    )


def tasks_needed(
    design: HeldoutDesign, settings: ValidationSettings, *, power: float | None = POWER, runs: int, seed: int
) -> int | None:
    """The smallest number of validation tasks, to within a quarter, with which an unchanged candidate fails in at
    most ``FALSE_FAILURES`` and a better one, by ``design.effect``, passes in at least ``power``.

    ``power``: None = only the first. None is returned if ``MAX_TASKS`` are not enough.
    """
    unchanged, runs = replace(design, effect=0.0), min(runs, _SEARCH_RUNS)

    def is_enough(tasks: int) -> bool:
        verdicts = _verdicts(unchanged, tasks, settings, runs=runs, seed=seed)
        if not _is_at_most((verdict == "fail" for verdict in verdicts), FALSE_FAILURES * runs):
            return False
        if power is None:
            return True
        verdicts = _verdicts(design, tasks, settings, runs=runs, seed=seed)
        return _is_at_most((verdict != "pass" for verdict in verdicts), (1.0 - power) * runs)

    high = settings.min_tasks * design.session_tasks
    while not is_enough(high):
        high *= 2
        if high > MAX_TASKS:
            return None
    low = high // 2
    for _ in range(_STEPS if high > settings.min_tasks * design.session_tasks else 0):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _verdicts(
    design: HeldoutDesign, tasks: int, settings: ValidationSettings, *, runs: int, seed: int
) -> Iterator[ValidationVerdict]:
    rng, quick = np.random.default_rng(seed), replace(settings, resamples=_RESAMPLES)
    for run in range(runs):
        yield validate(_draw_pairs(design, tasks, rng), quick, seed=run).verdict


def _is_at_most(events: Iterable[bool], most: float) -> bool:
    """Whether at most so many events are True; stops at the first one too many."""
    return all(count <= most + 1e-9 for count in accumulate(events, initial=0))


def _draw_pairs(design: HeldoutDesign, tasks: int, rng: np.random.Generator) -> list[Pair]:
    """Independent results of both versions, in rounds over the families, in whole episodes."""
    size = design.session_tasks
    episodes = -(-tasks // size)
    families = np.arange(episodes) % len(design.rates)
    incumbent = np.asarray(design.rates)[families]
    rates = np.stack([incumbent, np.minimum(incumbent + design.effect, 1.0)])
    if design.correlation:  # beta-binomial, as in the canary's simulation
        weight = (1.0 - design.correlation) / design.correlation
        rates = rng.beta(np.maximum(rates * weight, 1e-9), np.maximum((1.0 - rates) * weight, 1e-9))
    successes = (rng.random((2, episodes, size)) < rates[..., None]).astype(np.float64)
    names = [None if size == 1 else str(number) for number in range(episodes)]
    return [
        Pair(f"{number}-{task}", f"family {families[number]}", 1, old, new, episode=names[number])
        for number in range(episodes)
        for task, (old, new) in enumerate(successes[:, number].T.tolist())
    ]


@dataclass(frozen=True, slots=True)
class ReleaseDesign:
    """What a plan starts from."""

    heldout: HeldoutDesign
    heldout_tasks: int
    """Number of held-out tasks as configured, to compare with."""
    tasks_per_day: float
    """Of the agent: both arms together."""

    @property
    def baseline(self) -> float:
        """The incumbent's success rate over all families."""
        return float(np.mean(self.heldout.rates))


def plan_release(
    design: ReleaseDesign,
    validation: ValidationSettings,
    canary: CanarySettings,
    *,
    runs: int,
    seed: int,
    on_done: Callable[[], None] = lambda: None,
) -> tuple[Result, ...]:
    """The figures of a plan: validation tasks, candidate tasks and days of the canary, and error rates.

    ``on_done`` is called after each of the ``PLAN_STEPS`` parts.
    """
    heldout = design.heldout
    needed = tasks_needed(heldout, validation, runs=runs, seed=seed)
    on_done()
    configured = design.heldout_tasks
    now = _validation_results(heldout, configured, validation, "validation_configured", runs=runs, seed=seed)
    if all(result.holds is not False for result in now):  # the search is to within a quarter
        needed = configured if needed is None else min(needed, configured)
    results = [Result("validation_tasks", "none" if needed is None else float(needed), "tasks"), *now]
    on_done()
    if needed is not None:
        results += _validation_results(heldout, needed, validation, "validation_planned", runs=runs, seed=seed)
    on_done()
    for name, effect in (("better", heldout.effect), ("unchanged", 0.0)):
        scenario = Scenario(
            design.baseline,
            min(design.baseline + effect, 1.0),
            "promote" if effect else "no promotion",
            heldout.session_tasks,
            heldout.correlation,
        )
        results += _canary_results(name, simulate(scenario, canary, runs=runs, seed=seed), canary, design)
        on_done()
    return tuple(results)


def _validation_results(
    heldout: HeldoutDesign, tasks: int, settings: ValidationSettings, name: str, *, runs: int, seed: int
) -> Sequence[Result]:
    """At one number of tasks: how often a better candidate passes, and an unchanged one passes and fails."""
    better = validation_shares(heldout, tasks, settings, runs=runs, seed=seed)
    unchanged = validation_shares(replace(heldout, effect=0.0), tasks, settings, runs=runs, seed=seed)
    failed = unchanged.failed
    return [
        Result(f"{name}_tasks", float(tasks), "tasks"),
        better.passed.result(f"{name}_better_passes", bar=f">= {POWER:g}", holds=better.passed.mean >= POWER),
        unchanged.passed.result(f"{name}_unchanged_passes"),
        failed.result(f"{name}_unchanged_fails", bar=f"<= {FALSE_FAILURES:g}", holds=failed.mean <= FALSE_FAILURES),
    ]


def _canary_results(
    name: str, outcome: Outcome, settings: CanarySettings, design: ReleaseDesign
) -> Sequence[Result]:
    """Promotions; for a better candidate with tasks and days until then, for an unchanged one until its end."""
    promoted = outcome.decided(PROMOTE)
    share = clopper_pearson_interval(int(promoted.sum()), promoted.size)
    if name == "unchanged":
        bar = settings.alpha / 2.0
        ended = np.ones_like(promoted)
        first = share.result("canary_unchanged_promoted", bar=f"<= {bar:g}", holds=share.low <= bar)
    else:
        ended = promoted
        first = share.result(f"canary_{name}_promoted", bar=">= 0.95", holds=share.mean >= 0.95)
    results = [first]
    if not ended.any():
        return results
    for label, quantile in (("median", 0.5), ("95", 0.95)):
        tasks = float(np.quantile(outcome.candidate_tasks[ended], quantile))
        days = float(np.quantile(outcome.tasks[ended], quantile)) / design.tasks_per_day
        results += [
            Result(f"canary_{name}_tasks_{label}", tasks, "candidate tasks", n=int(ended.sum())),
            Result(f"canary_{name}_days_{label}", round(days, 2), "days", n=int(ended.sum())),
        ]
    return results
