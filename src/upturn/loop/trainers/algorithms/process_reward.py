"""A process reward model on trajectories in the pool: the probability of success after each turn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.agents import branch_points
from upturn.errors import TrainingError, WorldError
from upturn.loop.agent_runtime import Purpose
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.progress import curve_reporter
from upturn.loop.rollouts import ContinuationSpec, PolicyWorker, count_tokens_after_states, sample_continuations
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import TrainedVersion, training_folder
from upturn.loop.trainers.pool_data import render_writable, trained_selection
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.reward_model_version import (
    Figures,
    describe_model,
    hold_out_tasks,
    one_process,
    save_trained,
)
from upturn.loop.trainers.rl_training import CONTINUATIONS
from upturn.loop.trainers.training_plan import Overhead, Plan, epoch_workload, plan_on_rows
from upturn.pool import experiences_in, take_snapshot
from upturn.records import AgentVersion, Evaluation, Result, Snapshot, Task, Trajectory, record
from upturn.training import ScoredGroup, ScoredTrajectory, supervised_rows
from upturn.training.algorithms.process_reward import ProcessRewardSettings
from upturn.training.reward_models import (
    Calibration,
    LabelledTrajectory,
    continuation_targets,
    outcome_targets,
    potential_targets,
)
from upturn.training.runs import RunOptions

FAMILY_CAP = 512
"""Maximum number of trajectories per family, so that large families do not crowd out the others."""


class Verified(NamedTuple):
    """A stored trajectory in the tokens of the trained model, with its verdict."""

    task: Task
    trajectory: Trajectory
    is_success: bool


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run; of the continuations only their tokens are known."""
    settings = context.config.section(ProcessRewardSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    verified = load_verified(context, worker, take_verified_snapshot(context))
    rows, description = supervised_rows(item.trajectory for item in verified), f"{len(verified)} trajectories"
    work = epoch_workload(rows, description, epochs=settings.epochs, batch_rows=settings.batch_trajectories)
    base = plan_on_rows(context, worker, "process-reward", work, overhead=Overhead(copies=1))
    if settings.targets != "continuations":
        return base
    tokens = count_tokens_after_states(context.runtime, _groups(verified))
    return replace(base, continued_tokens=tokens * (settings.continuations or CONTINUATIONS))


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> TrainedVersion:
    """The parent as it was, with the reward model's folder and its figures on turns of held-out tasks."""
    from upturn.training.algorithms.process_reward import run_process_reward
    from upturn.training.optimisation import value_model

    settings = context.config.section(ProcessRewardSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_verified_snapshot(context))
    labelled = label(context, worker, load_verified(context, worker, snapshot), name)
    held_out = hold_out_tasks((item.trajectory.task_id for item in labelled), f"{len(labelled)} trajectories")
    trained = [item for item in labelled if item.trajectory.task_id not in held_out]
    steps = settings.epochs * -(-len(trained) // settings.batch_trajectories)
    context.progress.stage(f"Process reward model on {len(trained)} trajectories", steps)
    options = RunOptions(
        context.seed,
        training_folder(context, name),
        progress=curve_reporter(context.progress, loss="loss", brier="turn_brier"),
    )
    model = value_model(worker.model)
    outputs = run_process_reward(
        model,
        trained,
        settings,
        options,
        held_out=[item for item in labelled if item.trajectory.task_id in held_out],
    )
    assert outputs.held_out is not None
    description = describe_model(
        context, parent, offset=0.0, aggregation=settings.aggregation, snapshot=snapshot.id
    )
    figures = Figures(calibration_results(outputs.held_out), calibration_sentences(outputs.held_out, len(trained)))
    return save_trained(context, parent, name, model=model, description=description, figures=figures)


def take_verified_snapshot(context: Context) -> Snapshot:
    """Trajectories of this tenant with a verdict, in the trained families, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = replace(
        trained_selection(context),
        splits=("train",),
        verdicts=("success", "failure"),
        limit_per_family=FAMILY_CAP,
    )
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no verified trajectory of {', '.join(context.trained_families)} of the tenant "
            f"{context.tenant!r} to train a process reward model on; let an agent serve some tasks first"
        )
    return snapshot


def load_verified(context: Context, worker: PolicyWorker, snapshot: Snapshot) -> list[Verified]:
    """The snapshot's trajectories by task and agent version, without those that the model cannot write.

    Raises TrainingError where it can write none.
    """
    stored = list(experiences_in(context.pool, snapshot.id, tenant=context.tenant))
    by_id = {item.trajectory.id: item for item in stored}
    verified = []
    for trajectory in render_writable((item.trajectory for item in stored), worker):
        task, _, evaluation = by_id[trajectory.id]
        if evaluation is not None:
            verified.append(Verified(task, trajectory, evaluation.is_success))
    if not verified:
        raise TrainingError(
            f"{worker.version.agent!r} can write the first action of none of the {len(stored)} verified "
            "trajectories; use a pool with trajectories in its environment, or an agent with another renderer"
        )
    if len(verified) < len(stored):
        context.progress.note(f"omitted {len(stored) - len(verified)} trajectories that the agent cannot write")
    return sorted(verified, key=lambda item: (item.task.id, item.trajectory.agent_version, item.trajectory.id))


def label(
    context: Context, worker: PolicyWorker, verified: Sequence[Verified], name: str
) -> list[LabelledTrajectory]:
    """The trajectories with targets from the configured source. Raises TrainingError where it gives none."""
    source = context.config.section(ProcessRewardSettings).targets
    if source == "continuations":
        measured = context.journal.record_step(
            f"{name}-targets", StateTargets, lambda: _continue(context, worker, verified, name)
        )
        targets = list(measured.targets)
    elif source == "potential":
        targets = [potential_targets(item.trajectory, is_success=item.is_success) for item in verified]
        if all(turn.potential is None for item in verified for turn in item.trajectory.turns):
            raise TrainingError(
                f"process_reward.targets = 'potential', and {context.kit.name} reports no potential in any of the "
                f"{len(verified)} trajectories; use 'outcome' or 'continuations'"
            )
    else:
        targets = [outcome_targets(len(item.trajectory.turns), is_success=item.is_success) for item in verified]
    return [
        LabelledTrajectory(item.trajectory, values, item.is_success)
        for item, values in zip(verified, targets, strict=True)
    ]


@record
class StateTargets:
    """Targets from continuations, as the run's journal has them: they are sampled once."""

    targets: tuple[tuple[float | None, ...], ...]
    """By trajectory, then by turn."""


def _continue(context: Context, worker: PolicyWorker, verified: Sequence[Verified], name: str) -> StateTargets:
    """Targets by continuing the trajectories with the version that is trained.

    A trajectory that cannot be re-entered, such as one with a hint, has a target for its last turn only.
    """
    count = context.config.section(ProcessRewardSettings).continuations or CONTINUATIONS
    entered = [item for item in verified if _can_enter(context, item)]
    if len(entered) < len(verified):
        context.progress.note(
            f"{len(verified) - len(entered)} trajectories cannot be re-entered in their environment"
        )
    context.progress.stage(f"{count} continuations from each state of {len(entered)} trajectories")
    version = worker.serve_as(worker.version)
    purpose = Purpose(f"{context.run_id}/{name}/values", context.seed, temperature=1.0)
    spec = ContinuationSpec(count, _success, has_turn_rewards=False)
    measured = sample_continuations(context.runtime, version, _groups(entered), purpose, spec=spec)
    if measured.missing:
        context.progress.note(f"{measured.missing} of {measured.continuations} continuations have no verdict")
    states = {item.trajectory.id: returns for item, (returns,) in zip(entered, measured.returns, strict=True)}
    return StateTargets(
        tuple(
            continuation_targets(
                states.get(item.trajectory.id) or ((),) * len(item.trajectory.turns), is_success=item.is_success
            )
            for item in verified
        )
    )


def _can_enter(context: Context, item: Verified) -> bool:
    try:
        branch_points(item.trajectory, item.task, context.kit.environment(item.task))
    except WorldError:
        return False
    return True


def _groups(verified: Sequence[Verified]) -> list[ScoredGroup]:
    """A group for each trajectory; the rewards only mark it as usable."""
    return [
        ScoredGroup(item.task, (ScoredTrajectory(item.trajectory, (0.0,) * len(item.trajectory.turns)),))
        for item in verified
    ]


def _success(_: Trajectory, evaluation: Evaluation) -> float | None:
    return None if evaluation.verdict == "missing" else float(evaluation.is_success)


def calibration_results(measured: Calibration) -> list[Result]:
    """The figures on turns of held-out tasks."""
    n = measured.brier.n
    results = [
        measured.brier.result("brier", ""),
        Result("base_brier", measured.base_brier, n=n),
        Result("loss", measured.loss, n=n),
        Result("calibration_error", measured.calibration_error, n=n),
    ]
    return results if measured.separation is None else [*results, Result("separation", measured.separation)]


def calibration_sentences(measured: Calibration, trained: int) -> list[str]:
    """The same in sentences."""
    brier = measured.brier
    lines = [
        f"Trained on {trained:,} trajectories, its Brier score on {brier.n:,} turns of other tasks is "
        f"{brier.mean:.3f} ({brier.low:.3f} to {brier.high:.3f}); always predicting the mean target would give "
        f"{measured.base_brier:.3f}. The interval is 95 %, by bootstrap over tasks. The expected calibration error "
        f"is {measured.calibration_error:.3f}."
    ]
    if brier.mean >= measured.base_brier:
        lines.append("It is no better than this constant; do not train on it. Use more trajectories or steps.")
    if measured.separation is not None:
        lines.append(
            f"A successful trajectory scores above a failed one with probability {measured.separation:.2f}."
        )
    return lines


PROCESS_REWARD = Algorithm(ProcessRewardSettings, plan, train, frozenset({"pool"}), check_ranks=one_process)
