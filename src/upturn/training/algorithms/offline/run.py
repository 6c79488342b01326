"""Off-policy training on stored trajectories with their sampler's log-probs, corrected, with a limit on age.

Stored groups replace fresh ones in ``upturn.training.algorithms.grpo``. Their order in an epoch depends on
(seed, epoch) only; trajectories are compared by task, whichever version sampled them.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import Task
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.epochs import epoch_order
from upturn.training.algorithms.grpo import run_grpo
from upturn.training.algorithms.offline.settings import OfflineSettings
from upturn.training.data import EXCLUSION_REASONS, ExclusionReason, Freshness, exclusion_reason, group_trajectories
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import RunOptions
from upturn.training.stream import NO_STATE, State

Stored: TypeAlias = Sequence[tuple[Task, ScoredTrajectory]]


def run_offline(
    model: PreTrainedModel,
    stored: Stored,
    settings: OfflineSettings,
    options: RunOptions,
    *,
    versions: Sequence[str] = (),
) -> TrainingOutcome:
    """Trains the model in place on stored trajectories; resumes from the options' folder as ``run_grpo`` does.

    ``versions``: hashes of weights, the newest last, for ``settings.max_age``. Raises TrainingError for
    trajectories that no policy gradient can use, and when none is left. Tokens of another tokenizer are detected
    only if they are not in the vocabulary; else ``mismatch_ess`` on the curve is near 0."""
    _check_vocabulary(model, stored)
    if (settings.max_age is None) != (not versions):
        raise TrainingError(
            f"max_age={settings.max_age!r} with {len(versions)} versions: ages are counted in versions, so one "
            "without the other does nothing; give both or neither"
        )
    freshness = None if settings.max_age is None else Freshness(versions, settings.max_age)
    min_members = 1 if settings.advantage.baseline == "none" else 2
    collect = StoredCollect(
        stored, groups=settings.groups, seed=options.seed, freshness=freshness, min_members=min_members
    )
    return run_grpo(model, collect, settings, options)


class StoredCollect:
    """A ``Collect`` of stored trajectories: an iteration's groups are a pure function of (seed, iteration)."""

    def __init__(
        self, stored: Stored, *, groups: int, seed: int, freshness: Freshness | None = None, min_members: int = 2
    ) -> None:
        """``groups``: per iteration. ``freshness``: older trajectories are excluded and counted; None = no limit.

        ``min_members``: smallest size of a group; 1 only for estimators that compare nothing. Raises TrainingError
        for trajectories without sampler log-probs, and when none is left."""
        self.groups = groups
        self.seed = seed
        self.freshness = freshness
        reasons = [exclusion_reason(scored.trajectory, freshness) for _, scored in stored]
        _check_usable(stored, reasons)
        fresh = group_trajectories(item for item, reason in zip(stored, reasons, strict=True) if reason is None)
        self._stored_groups = [group for group in fresh if len(group.members) >= min_members]
        self.excluded = Counter(reason for reason in reasons if reason is not None)
        """By reason: stale, unknown weights, alone."""
        self.excluded["alone"] = sum(len(group.members) for group in fresh if len(group.members) < min_members)
        if not self._stored_groups:
            shown = "; ".join(
                f"{count} {EXCLUSION_REASONS[reason]}" for reason, count in self.excluded.items() if count
            )
            raise TrainingError(f"of {len(stored)} stored trajectories none is left to train on: {shown}")
        self._iteration = 0

    @property
    def per_epoch(self) -> int:
        """Iterations of one pass over all groups."""
        return math.ceil(len(self._stored_groups) / self.groups)

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """Returns the iteration's groups."""
        self._iteration = iteration
        epoch, batch = divmod(iteration, self.per_epoch)
        order = epoch_order(len(self._stored_groups), self.seed, epoch)
        return [self._stored_groups[index] for index in order[batch * self.groups : (batch + 1) * self.groups]]

    def state(self) -> State:
        """Returns an empty state."""
        return NO_STATE

    def load_state(self, state: State) -> None:
        """Does nothing."""

    def metrics(self) -> Mapping[str, float]:
        """Returns ``stored_epoch``, ``stored_age`` (mean, in versions, with a limit on age) and excluded counts."""
        metrics = {"stored_epoch": float(self._iteration // self.per_epoch)}
        metrics |= {f"stored_left_out_{reason}": float(count) for reason, count in self.excluded.items()}
        if self.freshness is not None:
            groups = self(self._iteration)
            ages = [self.freshness.age(member.trajectory) for group in groups for member in group.members]
            metrics["stored_age"] = sum(ages) / len(ages)
        return metrics

    def identity(self) -> Mapping[str, object]:
        """Returns a hash of the trajectories, and the number of groups."""
        return {"stored attempts": _groups_digest(self._stored_groups), "stored groups": self.groups}


def _check_vocabulary(model: PreTrainedModel, stored: Stored) -> None:
    embeddings: Any = model.get_input_embeddings()  # typed as any module
    size: int = embeddings.num_embeddings
    for _, scored in stored:
        largest = max((token for row in scored.trajectory.rows for token in row.token_ids), default=0)
        if largest >= size:
            raise TrainingError(
                f"stored trajectory {scored.trajectory.id!r} has token {largest!r}, the model has {size} tokens: "
                "it was sampled with another tokenizer; leave such trajectories out"
            )


def _check_usable(stored: Stored, reasons: Sequence[ExclusionReason | None]) -> None:
    """Raises TrainingError for trajectories that are unusable for other reasons than age."""
    if not stored:
        raise TrainingError("there are no stored trajectories to train on; give at least two of one task")
    counts = Counter(reason for reason in reasons if reason not in (None, "stale", "unknown_weights"))
    if counts:
        first = next(scored for (_, scored), reason in zip(stored, reasons, strict=True) if reason in counts)
        shown = "; ".join(f"{count}: {EXCLUSION_REASONS[reason]}" for reason, count in counts.items() if reason)
        raise TrainingError(
            f"{counts.total()} of {len(stored)} stored trajectories, such as {first.trajectory.id!r}, cannot train "
            f"a policy gradient ({shown}). Leave them out, or train on them with SFT, DPO or KTO"
        )


def _groups_digest(groups: Sequence[ScoredGroup]) -> str:
    digest = hashlib.sha256()
    for group in groups:
        for member in group.members:
            digest.update(f"{group.task.id} {member.trajectory.id} {member.turn_rewards!r}\n".encode())
            for row in member.trajectory.rows:
                digest.update(np.asarray(row.token_ids, dtype=np.int64).tobytes())
                digest.update(np.asarray(row.logprobs, dtype=np.float64).tobytes())
                digest.update(np.asarray(row.sampling_logprobs, dtype=np.float64).tobytes())
    return digest.hexdigest()
