"""The audit of a finished or active training run: its stored rollouts, its curve and its configuration."""

import json
from pathlib import Path
from typing import NamedTuple

from upturn.config import PoolConfig, RewardConfig, parse_settings
from upturn.errors import TrainingError
from upturn.pool import Pool, Scope
from upturn.pool.statistics import rollout_evaluations
from upturn.rewards import Quality, RewardAudit, audit_rewards, configured_rubric, configured_score
from upturn.training.runs import CURVE_FILE, read_curve


class AuditedRun(NamedTuple):
    """What the folder of a training run says about it."""

    key: str
    """Of its rollouts in the pool."""
    rewards: RewardConfig
    pool: str
    """File or URL."""
    tenant: str


def audited_run(folder: Path) -> AuditedRun:
    """The run of the folder ``runs/<id>/training/<name>``; raises TrainingError where the folder is none."""
    name, run_dir = folder.resolve().name, folder.resolve().parent.parent
    path = run_dir / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        rewards, pool = parse_settings(RewardConfig, raw["rewards"]), parse_settings(PoolConfig, raw["pool"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise TrainingError(
            f"{str(folder)!r} is not the folder of a training run, runs/<id>/training/<name>: its run's "
            f"configuration {str(path)!r} cannot be read: {exc}"
        ) from exc
    return AuditedRun(f"{run_dir.name}/{name}", rewards, pool.path or str(run_dir / "pool.db"), pool.tenant)


def audit_training(folder: Path, pool: Pool, *, tenant: Scope) -> RewardAudit:
    """The audit of the training run in the folder, ``runs/<id>/training/<name>``.

    The reward is the score of the run's ``[rewards]`` over the stored components. Raises TrainingError where the
    folder is not one of a training run, or the pool has none of its rollouts.
    """
    run, rewards, *_ = audited_run(folder)
    by_iteration = rollout_evaluations(pool, run, tenant=tenant)
    if not by_iteration:
        raise TrainingError(
            f"the pool {str(pool.location)!r} has no rollouts of the run {run!r} for this tenant; name the run's "
            "pool (--pool), its tenant, and the folder of a training run on rollouts, such as grpo"
        )
    iterations = [by_iteration[number] for number in sorted(by_iteration)]
    scores = [[configured_score(rewards, evaluation) for evaluation in row] for row in iterations]
    return audit_rewards(iterations, scores, configured_rubric(rewards).terms({}), _quality(folder))


def _quality(folder: Path) -> list[Quality]:
    """The held-out evaluations on the curve that have an interval."""
    curve = folder / CURVE_FILE
    found = list[Quality]()
    for point in read_curve(curve) if curve.exists() else ():
        score, low, high = (point.metrics.get(name) for name in ("score", "score_low", "score_high"))
        if score is not None and low is not None and high is not None:
            found.append(Quality(point.units, score, low, high))
    return found
