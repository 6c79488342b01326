"""Thompson sampling with hierarchical shrinkage over versions and families, and forgetting on evidence of change.

The success rate of version a in family f has a Beta prior with mean ``m_a + c_f``: the version's mean over the
other families, shifted by what all versions have in common in f (its difficulty). The strength of the prior is
learned from the marginal likelihood of all counts (empirical Bayes), so versions whose differences are alike in all
families share much evidence, and specialised ones little. It is never above the evidence that it comes from.

Nothing is forgotten while nothing changes. A detector for each version over all families, and one for each version
and family, raise an alarm when outcomes contradict the predictions. All outcomes of the version, or of the cell,
are then forgotten, also those that raised the alarm: they are selected for being unusual, and after a false alarm
the version would stay underrated for as long as it is rarely explored. A family with an alarm of its own stays
apart: its prior has strength 2.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, LearningPolicy
from upturn.arbiter.policies.change import ChangeDetector, Run
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policy import Candidate
from upturn.arbiter.posterior import Posterior
from upturn.records import Decision, Task, fields_json, from_fields, record

STRENGTHS = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
"""Strengths of the prior, in outcomes, among which the likelihood chooses."""
COMMON_WEIGHT = 6.0
"""Outcomes after which a family's common shift counts half."""
APART_STRENGTH = 2.0
"""Strength of the prior in a family whose detector raised an alarm."""
THRESHOLD = 12.0
"""Of the change detectors; 1 of 60 simulated streams of 1,500 outcomes without a change had a false alarm."""
FIRST_FIT = 20
FIT_GROWTH = 1.15
"""The strength is estimated after 20 outcomes, and whenever their number has grown by 15 %."""
MAX_BELIEFS = 10_000
"""Maximum number of posteriors that are kept between two outcomes; all are dropped when there are more."""
_RATES = (0.02, 0.98)
"""Range of prior means."""


@record
class Cell:
    """The outcomes of one version in one family since its last change."""

    reward: float = 0.0
    outcomes: float = 0.0
    is_apart: bool = False
    """True = its detector raised an alarm, and it shares no evidence with other families."""
    runs: tuple[Run, ...] = ()


@record
class VersionState:
    """One version over all families."""

    residual: float
    outcomes: float
    runs: tuple[Run, ...]


@record
class HierarchicalState:
    """What ``HierarchicalThompson`` learned."""

    families: Mapping[str, Mapping[str, Cell]]
    common: Mapping[str, float]
    versions: Mapping[str, VersionState]
    strength: float
    next_fit: int
    learned: int


class _Version:
    """The sums of one version over the families in which it is not apart."""

    def __init__(self) -> None:
        self.residual = 0.0  # of rewards minus the families' common shifts
        self.outcomes = 0.0
        self.detector = ChangeDetector()


class _Cell:
    def __init__(self) -> None:
        self.reward = 0.0
        self.outcomes = 0.0
        self.is_apart = False
        self.detector = ChangeDetector()


class HierarchicalThompson(LearningPolicy):
    """Thompson sampling by family that borrows from other families, and forgets on evidence of change.

    The probability of being best is that of normal variables with the posteriors' means and variances.
    """

    def __init__(self, *, floor: float = DEFAULT_FLOOR, threshold: float | None = THRESHOLD) -> None:
        """``threshold``: of the change detectors; None = no detection."""
        super().__init__("thompson", floor, threshold=threshold)
        self.threshold = threshold
        self.strength = 8.0
        self._next_fit = FIRST_FIT
        self._learned = 0
        self._families: dict[str, dict[str, _Cell]] = {}
        self._common: dict[str, float] = {}
        self._versions: dict[str, _Version] = {}
        self._mean: float | None = None  # that of ``_overall``; None = not computed since the last outcome
        self._beliefs: dict[tuple[str, str], Posterior] = {}  # by family and version, since the last outcome

    def belief(self, family: str, version: str) -> Posterior:
        """Returns the posterior of the version's success rate in the family."""
        belief = self._beliefs.get((family, version))
        if belief is None:
            if len(self._beliefs) >= MAX_BELIEFS:
                self._beliefs.clear()
            belief = self._beliefs[family, version] = self._computed_belief(family, version)
        return belief

    def _computed_belief(self, family: str, version: str) -> Posterior:
        if self._mean is None:
            self._mean = self._overall()
        mean, strength = self._prior(family, version, self._mean)
        cell = self._families.get(family, {}).get(version)
        if cell is not None:
            mean = (mean * strength + cell.reward) / (strength + cell.outcomes)
            strength += cell.outcomes
        return Posterior(mean * strength, (1 - mean) * strength)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        offered = self._offered(candidates)
        beliefs = [self.belief(task.family, version) for version in offered.versions]
        means = np.array([belief.mean for belief in beliefs]) - offered.handicaps
        return probability_largest(means, np.array([belief.deviation for belief in beliefs]))

    def _forget_beliefs(self) -> None:
        self._mean = None
        self._beliefs.clear()

    def _overall(self) -> float:
        """Returns the mean reward over all versions and families."""
        residual = sum(version.residual for version in self._versions.values())
        return (residual + 1) / (sum(version.outcomes for version in self._versions.values()) + 2)

    def _prior(self, family: str, name: str, overall: float) -> tuple[float, float]:
        """Returns mean and strength of the prior of a version in a family, from the other families."""
        common = self._common.get(family, 0.0)
        version, cell = self._versions.get(name), self._families.get(family, {}).get(name)
        residual = outcomes = 0.0
        if version is not None:
            residual, outcomes = version.residual, version.outcomes
            if cell is not None and not cell.is_apart:
                residual -= cell.reward - cell.outcomes * common
                outcomes -= cell.outcomes
        mean = (residual + 2 * overall) / (outcomes + 2)
        strength = APART_STRENGTH if cell is not None and cell.is_apart else self.strength
        # The prior's mean has the variance of a mean over ``outcomes + 2`` outcomes.
        strength = 1 / (1 / strength + 1 / (outcomes + 2)) + 1
        return min(max(mean + common, _RATES[0]), _RATES[1]), strength

    def _update(self, decision: Decision, reward: float) -> None:
        family, name = decision.family, decision.chosen
        predicted = self.belief(family, name).mean
        version = self._versions.setdefault(name, _Version())
        cell = self._families.setdefault(family, {}).setdefault(name, _Cell())
        self._add(family, name, reward)
        if self.threshold is not None:
            if cell.detector.add(predicted, reward, self.threshold) is not None:
                self._set_apart(family, name)
            if version.detector.add(predicted, reward, self.threshold) is not None:
                self._restart(name)
        self._learned += 1
        if self._learned >= self._next_fit:
            self.strength = self._best_strength()
            self._next_fit = int(self._learned * FIT_GROWTH) + 1
        self._forget_beliefs()

    def _add(self, family: str, name: str, reward: float) -> None:
        """Adds an outcome to the cell, the version's sums, and the family's common shift."""
        cell = self._families[family].setdefault(name, _Cell())
        cell.reward += reward
        cell.outcomes += 1
        if not cell.is_apart:
            version = self._versions[name]
            version.residual += reward - self._common.get(family, 0.0)
            version.outcomes += 1
            self._shift(family)

    def _shift(self, family: str) -> None:
        """Estimates the family's common shift again, and the residuals that depend on it."""
        overall, before = self._overall(), self._common.get(family, 0.0)
        cells = {name: cell for name, cell in self._families[family].items() if not cell.is_apart}
        residual = outcomes = 0.0
        for name, cell in cells.items():
            version = self._versions[name]
            mean = (version.residual + 2 * overall) / (version.outcomes + 2)
            residual += cell.reward - cell.outcomes * mean
            outcomes += cell.outcomes
        after = residual / (outcomes + COMMON_WEIGHT)
        for name, cell in cells.items():
            self._versions[name].residual -= cell.outcomes * (after - before)
        self._common[family] = after

    def _set_apart(self, family: str, name: str) -> None:
        """Forgets the outcomes of this cell, and sets it apart from other families."""
        cell, version = self._families[family][name], self._versions[name]
        if not cell.is_apart:
            version.residual -= cell.reward - cell.outcomes * self._common.get(family, 0.0)
            version.outcomes -= cell.outcomes
            cell.is_apart = True
        cell.reward = cell.outcomes = 0.0
        self._shift(family)

    def _restart(self, name: str) -> None:
        """Forgets the version's outcomes in all families."""
        version = self._versions[name]
        version.residual = version.outcomes = 0.0
        for cells in self._families.values():
            cells.pop(name, None)

    def _best_strength(self) -> float:
        """Returns the strength k with the highest posterior for all cells that are not apart; its prior is 1/k."""
        overall = self._overall()
        means, rewards, outcomes = [], [], []
        for family, cells in self._families.items():
            for name, cell in cells.items():
                if not cell.is_apart and cell.outcomes:
                    means.append(self._prior(family, name, overall)[0])
                    rewards.append(cell.reward)
                    outcomes.append(cell.outcomes)
        if not means:
            return self.strength
        mean, reward, count = np.array(means)[:, None], np.array(rewards)[:, None], np.array(outcomes)[:, None]
        alpha, beta = mean * STRENGTHS, (1 - mean) * STRENGTHS
        likelihood = special.betaln(alpha + reward, beta + count - reward) - special.betaln(alpha, beta)
        return float(STRENGTHS[(likelihood.sum(axis=0) - np.log(STRENGTHS)).argmax()])

    def _dump(self) -> str:
        families = {
            family: {
                name: Cell(cell.reward, cell.outcomes, cell.is_apart, tuple(cell.detector.runs))
                for name, cell in cells.items()
            }
            for family, cells in self._families.items()
        }
        versions = {
            name: VersionState(version.residual, version.outcomes, tuple(version.detector.runs))
            for name, version in self._versions.items()
        }
        state = HierarchicalState(families, self._common, versions, self.strength, self._next_fit, self._learned)
        return fields_json(state)

    def _load(self, learned: str) -> None:
        state = from_fields(HierarchicalState, learned)
        self._families = {
            family: {name: _cell(cell) for name, cell in cells.items()} for family, cells in state.families.items()
        }
        self._common = dict(state.common)
        self._versions = {name: _version(version) for name, version in state.versions.items()}
        self.strength, self._next_fit, self._learned = state.strength, state.next_fit, state.learned
        self._forget_beliefs()


def _cell(state: Cell) -> _Cell:
    cell = _Cell()
    cell.reward, cell.outcomes, cell.is_apart = state.reward, state.outcomes, state.is_apart
    cell.detector.runs = list(state.runs)
    return cell


def _version(state: VersionState) -> _Version:
    version = _Version()
    version.residual, version.outcomes = state.residual, state.outcomes
    version.detector.runs = list(state.runs)
    return version
