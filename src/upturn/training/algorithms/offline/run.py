"""Learning from stored attempts that carry their sampler's log-probs: off-policy, corrected, none too old.

Stored groups take the place of fresh ones in ``upturn.training.algorithms.grpo``. The attempts of an epoch come in
an order that depends on (seed, epoch) only; attempts are compared by task, whoever sampled them.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import Task
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import run_grpo
from upturn.training.algorithms.offline.settings import OfflineSettings
from upturn.training.algorithms.sft import epoch_order
from upturn.training.data import REASONS, Freshness, Reason, groups_of, why_no_policy
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import RunOptions
from upturn.training.stream import NO_STATE, State

Attempts: TypeAlias = Sequence[tuple[Task, ScoredTrajectory]]


def run_offline(
    model: PreTrainedModel,
    attempts: Attempts,
    settings: OfflineSettings,
    options: RunOptions,
    *,
    versions: Sequence[str] = (),
) -> TrainingOutcome:
    """Trains the model in place on stored attempts; resumes from the options' folder as ``run_grpo`` does.

    ``versions``: hashes of weights, the newest last, which ``settings.max_age`` counts in. Raises TrainingError for
    attempts that no policy gradient can use, and when none is left. Tokens of another tokenizer are found only
    where the model has no such token; else ``mismatch_ess`` near 0 on the curve tells.
    """
    _refuse_foreign(model, attempts)
    if (settings.max_age is None) != (not versions):
        raise TrainingError(
            f"max_age={settings.max_age!r} with {len(versions)} versions: ages are counted in versions, so one "
            "without the other does nothing; give both or neither"
        )
    freshness = None if settings.max_age is None else Freshness(versions, settings.max_age)
    least = 1 if settings.advantage.baseline == "none" else 2
    collect = StoredCollect(attempts, groups=settings.groups, seed=options.seed, freshness=freshness, least=least)
    return run_grpo(model, collect, settings, options)


class StoredCollect:
    """A ``Collect`` of stored attempts: what an iteration gets is a pure function of (seed, iteration)."""

    def __init__(
        self,
        attempts: Attempts,
        *,
        groups: int,
        seed: int,
        freshness: Freshness | None = None,
        least: int = 2,
    ) -> None:
        """``groups``: of one iteration. ``freshness``: too old attempts are left out and counted; None = none is.

        ``least``: attempts that a group needs; 1 only for estimators that compare nothing. Raises TrainingError for
        attempts without sampler log-probs, and when nothing is left.
        """
        self.groups = groups
        self.seed = seed
        self.freshness = freshness
        reasons = [why_no_policy(attempt.trajectory, freshness) for _, attempt in attempts]
        _refuse_unusable(attempts, reasons)
        fresh = groups_of(each for each, reason in zip(attempts, reasons, strict=True) if reason is None)
        self._found = [group for group in fresh if len(group.members) >= least]
        alone = sum(len(group.members) for group in fresh if len(group.members) < least)
        self.left_out = Counter({reason: count for reason, count in Counter(reasons).items() if reason is not None})
        """By reason: stale, unknown weights, alone."""
        self.left_out["alone"] = alone
        if not self._found:
            raise TrainingError(f"of {len(attempts)} stored attempts none is left to train on: {self._shown()}")
        self._iteration = 0

    @property
    def per_epoch(self) -> int:
        """Iterations until every group has come once."""
        return -(-len(self._found) // self.groups)

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """The iteration's groups."""
        self._iteration = iteration
        epoch, batch = divmod(iteration, self.per_epoch)
        order = epoch_order(len(self._found), self.seed, epoch)
        return [self._found[each] for each in order[batch * self.groups : (batch + 1) * self.groups]]

    def state(self) -> State:
        """Nothing."""
        return NO_STATE

    def load_state(self, state: State) -> None:
        """Nothing to go back to."""

    def metrics(self) -> Mapping[str, float]:
        """``stored_epoch``, ``stored_age`` (mean, in versions, where ages are bounded) and what was left out."""
        found = {"stored_epoch": float(self._iteration // self.per_epoch)}
        found |= {f"stored_left_out_{reason}": float(count) for reason, count in self.left_out.items()}
        if self.freshness is not None:
            ages = [
                self.freshness.age(each.trajectory) for group in self(self._iteration) for each in group.members
            ]
            found["stored_age"] = sum(ages) / len(ages)
        return found

    def identity(self) -> Mapping[str, object]:
        """Which attempts, and how many tasks at once."""
        return {"stored attempts": _digest(self._found), "stored groups": self.groups}

    def _shown(self) -> str:
        return "; ".join(f"{count} {REASONS[reason]}" for reason, count in self.left_out.items() if count)


def _refuse_foreign(model: PreTrainedModel, attempts: Attempts) -> None:
    embeddings: Any = model.get_input_embeddings()  # typed for every module that could be one
    known: int = embeddings.num_embeddings
    for _, attempt in attempts:
        largest = max((token for row in attempt.trajectory.rows for token in row.token_ids), default=0)
        if largest >= known:
            raise TrainingError(
                f"stored attempt {attempt.trajectory.id!r} has token {largest!r}, the model knows {known} tokens: "
                "it was sampled with another tokenizer; leave such attempts out"
            )


def _refuse_unusable(attempts: Attempts, reasons: Sequence[Reason | None]) -> None:
    """Raises TrainingError where attempts were sampled by nobody who left log-probs; age is another matter."""
    if not attempts:
        raise TrainingError("there are no stored attempts to train on; give at least two at one task")
    bad = {reason: count for reason, count in Counter(reasons).items() if reason not in _LEFT_OUT}
    if bad:
        first = next(each for (_, each), reason in zip(attempts, reasons, strict=True) if reason in bad)
        shown = "; ".join(f"{count}: {REASONS[reason]}" for reason, count in bad.items() if reason is not None)
        raise TrainingError(
            f"{sum(bad.values())} of {len(attempts)} stored attempts, such as {first.trajectory.id!r}, cannot "
            f"train a policy gradient ({shown}). Leave them out, or train on them with SFT, DPO or KTO"
        )


_LEFT_OUT = (None, "stale", "unknown_weights")


def _digest(groups: Sequence[ScoredGroup]) -> str:
    found = hashlib.sha256()
    for group in groups:
        for member in group.members:
            found.update(f"{group.task.id} {member.trajectory.id} {member.turn_rewards!r}\n".encode())
            for row in member.trajectory.rows:
                found.update(np.asarray(row.token_ids, dtype=np.int64).tobytes())
                found.update(np.asarray(row.logprobs, dtype=np.float64).tobytes())
    return found.hexdigest()
