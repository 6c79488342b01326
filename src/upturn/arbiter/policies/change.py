"""Detection of changes in a stream of outcomes: cumulative sums of log-likelihood ratios (Page 1954).

For each alternative, a shift of the log-odds, the sum of ``log q(y) / p(y)`` restarts at 0 when it falls below 0; p
is the predicted success rate and q the shifted one. An alarm is raised when a sum exceeds ``threshold``. If the
predictions are right, the mean time between alarms is at least ``exp(threshold)`` outcomes for each alternative
(Lorden 1971, theorem 2). The outcomes since the sum's last restart are those after the estimated change.
"""

from dataclasses import dataclass, field
from math import exp, log

from upturn.records import record

SHIFTS = (-2.0, -0.8, 0.8, 2.0)
"""Alternatives, in log-odds: a rate of .80 becomes .35, .64, .90 and .97."""
_MARGIN = 1e-3
"""Predicted rates are kept away from 0 and 1 by this, because no prediction is certain."""


@record
class Run:
    """The cumulative sum of one alternative, and the outcomes since its last restart."""

    score: float = 0.0
    outcomes: int = 0
    reward: float = 0.0


@dataclass(slots=True)
class ChangeDetector:
    """Cumulative sums for all alternatives over one stream of outcomes."""

    runs: list[Run] = field(default_factory=lambda: [Run()] * len(SHIFTS))

    def add(self, predicted: float, reward: float, threshold: float) -> Run | None:
        """Adds an outcome; returns the outcomes after the estimated change at an alarm, else None.

        ``predicted`` is the success rate that was predicted without this outcome, ``reward`` is in [0, 1]. After an
        alarm all sums restart.
        """
        rate = min(max(predicted, _MARGIN), 1 - _MARGIN)
        alarm: Run | None = None
        for index, shift in enumerate(SHIFTS):
            odds = exp(shift) * rate / (1 - rate)
            ratio = reward * log(odds / (1 + odds) / rate) - (1 - reward) * log((1 + odds) * (1 - rate))
            run = self.runs[index]
            score = run.score + ratio
            if score <= 0:
                self.runs[index] = Run()
                continue
            self.runs[index] = Run(score, run.outcomes + 1, run.reward + reward)
            if score > threshold and (alarm is None or score > alarm.score):
                alarm = self.runs[index]
        if alarm is not None:
            self.runs = [Run()] * len(SHIFTS)
        return alarm
