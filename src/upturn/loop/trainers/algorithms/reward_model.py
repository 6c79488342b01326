"""An outcome reward model on pairs in the pool: corrections, two versions, and the best and worst of each task."""

from collections.abc import Sequence

from upturn.loop.evaluation import HeldoutResult
from upturn.loop.progress import curve_reporter
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.algorithms.dpo import LoadedPairs, load_pairs
from upturn.loop.trainers.candidate import TrainedVersion, training_folder
from upturn.loop.trainers.pool_data import render_writable, stored_extremes
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.reward_model_version import (
    Figures,
    describe_model,
    hold_out_tasks,
    one_process,
    save_trained,
)
from upturn.loop.trainers.training_plan import Overhead, Plan, Workload, plan_on_rows
from upturn.records import AgentVersion, PreferencePair, Result
from upturn.training import PairSettings, ScoredGroup, ScoredTrajectory, supervised_rows
from upturn.training.algorithms.reward_model import RewardModelSettings
from upturn.training.data import mine_pairs
from upturn.training.reward_models import Ranking
from upturn.training.runs import RunOptions


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(RewardModelSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    pairs = _load(context, worker).pairs
    rows = supervised_rows(side for pair in pairs for side in (pair.chosen, pair.rejected))
    steps = settings.epochs * -(-len(pairs) // settings.batch_pairs)
    work = Workload(
        rows,
        f"{len(pairs)} pairs",
        steps,
        "optimiser step",
        settings.epochs * len(rows),
        2 * settings.batch_pairs,
    )
    return plan_on_rows(context, worker, "reward-model", work, overhead=Overhead(copies=1))


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> TrainedVersion:
    """The parent as it was, with the reward model's folder and its figures on pairs of held-out tasks."""
    from upturn.training.algorithms.reward_model import run_reward_model
    from upturn.training.optimisation import value_model

    settings = context.config.section(RewardModelSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    pairs, snapshot = _load(context, worker)
    held_out = hold_out_tasks((pair.chosen.task_id for pair in pairs), f"{len(pairs)} pairs")
    trained = [pair for pair in pairs if pair.chosen.task_id not in held_out]
    steps = settings.epochs * -(-len(trained) // settings.batch_pairs)
    context.progress.stage(f"Reward model on {len(trained)} pairs", steps)
    options = RunOptions(
        context.seed,
        training_folder(context, name),
        progress=curve_reporter(context.progress, loss="loss", correct="ranking_accuracy"),
    )
    model = value_model(worker.model)
    outputs = run_reward_model(
        model,
        trained,
        settings,
        options,
        held_out=[pair for pair in pairs if pair.chosen.task_id in held_out],
    )
    assert outputs.held_out is not None
    description = describe_model(context, parent, offset=outputs.mean, aggregation=None, snapshot=snapshot)
    figures = Figures(ranking_results(outputs.held_out), ranking_sentences(outputs.held_out, len(trained)))
    return save_trained(context, parent, name, model=model, description=description, figures=figures)


def ranking_results(measured: Ranking) -> list[Result]:
    """The figures on pairs of held-out tasks."""
    n = measured.accuracy.n
    optional = {
        "longer_preferred": measured.longer_preferred,
        "longer_chosen": measured.longer_chosen,
        "length_correlation": measured.length_correlation,
    }
    return [
        measured.accuracy.result("accuracy"),
        Result("loss", measured.loss, n=n),
        *(Result(name, value, n=n) for name, value in optional.items() if value is not None),
    ]


def ranking_sentences(measured: Ranking, trained: int) -> list[str]:
    """The same in sentences."""
    accuracy = measured.accuracy
    lines = [
        f"Trained on {trained:,} pairs. Accuracy on pairs of other tasks (n = {accuracy.n:,}): "
        f"{100 * accuracy.mean:.1f} % (95 % interval {100 * accuracy.low:.1f} to {100 * accuracy.high:.1f} %, by "
        "bootstrap over tasks). Scores do not depend on which side comes first."
    ]
    if accuracy.low <= 0.5:
        lines.append("The interval includes 50 %: it is not shown to be better than chance. Use more pairs.")
    if measured.longer_preferred is not None and measured.longer_chosen is not None:
        lines.append(
            f"Length: it prefers the longer side in {100 * measured.longer_preferred:.0f} % of the pairs of "
            f"unequal length, the labels in {100 * measured.longer_chosen:.0f} %."
        )
    if measured.length_correlation is not None:
        lines.append(f"Spearman's correlation of score and written tokens is {measured.length_correlation:+.2f}.")
    return lines


def _load(context: Context, worker: PolicyWorker) -> LoadedPairs:
    settings = context.config.section(RewardModelSettings)

    def of_groups() -> Sequence[PreferencePair]:
        return _group_pairs(context, worker, settings) if settings.groups else ()

    return load_pairs(context, worker, settings, of_groups)


def _group_pairs(
    context: Context, worker: PolicyWorker, settings: RewardModelSettings
) -> tuple[PreferencePair, ...]:
    """The best with the worst stored trajectory of each task; notes how many tasks have none."""
    groups = []
    for experiences in stored_extremes(context):
        scores = {item.trajectory.id: item.evaluation.score for item in experiences if item.evaluation is not None}
        members = [
            ScoredTrajectory(trajectory, (*(0.0 for _ in trajectory.turns[1:]), scores[trajectory.id] or 0.0))
            for trajectory in render_writable((item.trajectory for item in experiences), worker)
        ]
        groups.append(ScoredGroup(experiences[0].task, tuple(members)))
    mined = mine_pairs(groups, PairSettings(min_margin=settings.min_margin))
    dropped = len(groups) - len(mined.pairs)
    if dropped:
        context.progress.note(f"{dropped} of {len(groups)} tasks have no two trajectories that differ")
    return mined.pairs


REWARD_MODEL = Algorithm(RewardModelSettings, plan, train, frozenset({"pool"}), check_ranks=one_process)
