"""Policy optimisation on attempts that the pool holds."""

from collections import Counter
from collections.abc import Iterable, Sequence

from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult, selection_evaluation
from upturn.loop.progress import told
from upturn.loop.rollouts import PolicyWorker, in_training, scored
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.pool_data import needed_pool, with_rows
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import rollout_plan
from upturn.loop.trainers.training_plan import Held, Plan, Walk, rows_plan
from upturn.models import Renderer
from upturn.pool import Selection, experiences_in, take_snapshot
from upturn.records import AgentVersion, Snapshot, Task
from upturn.training import ScoredTrajectory, policy_rows
from upturn.training.algorithms.offline import OfflineSettings
from upturn.training.data import usability as stored
from upturn.training.runs import RunOptions


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take; notes what the pool's attempts can and cannot train."""
    asked, worker = context.config.section(OfflineSettings), PolicyWorker(context.runtime, parent, context.adapter)
    usable = [each.trajectory for _, each in usable_attempts(context, worker.renderer)]
    rows = [row for each in usable for row in policy_rows(each, (0.0,) * len(each.turns))]
    tasks = len({each.task_id for each in usable})
    batch = max(1, round(len(rows) * min(asked.groups, tasks) / tasks))
    rounds = asked.iterations
    words = f"{len(usable)} attempts at {tasks} tasks"
    walk = Walk(rows, words, rounds, "iteration", rounds * batch, batch)
    return rows_plan(context, worker, "offline", walk, held=Held(copies=1, scorings=1))


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The version that learned from them; watched on fresh tasks, as practice is."""
    from upturn.training.algorithms.offline import run_offline

    asked, worker = context.config.section(OfflineSettings), PolicyWorker(context.runtime, parent, context.adapter)
    snapshot, folder = frozen_attempts(context), training_folder(context, name)
    attempts = usable_in(context, snapshot, worker.renderer)
    context.progress.stage(f"Policy optimisation on {len(attempts)} stored attempts", asked.iterations)
    jointly(
        context.world,
        worker,
        run_offline,
        attempts,
        asked,
        RunOptions(
            context.seed,
            folder,
            evaluate=selection_evaluation(context, worker, name),
            progress=told(context.progress, reward="mean_return"),
        ),
        versions=()
        if asked.max_age is None
        else versions_of(parent.agent, context.pool.agent_versions(), attempts),
    )
    return keep_version(context, worker, parent, name, snapshot=snapshot.id)


def usable_attempts(context: Context, renderer: Renderer) -> list[tuple[Task, ScoredTrajectory]]:
    """``usable_in`` what the pool held when the run began, which is frozen: a resumed run learns from the same."""
    return usable_in(context, frozen_attempts(context), renderer)


def usable_in(context: Context, snapshot: Snapshot, renderer: Renderer) -> list[tuple[Task, ScoredTrajectory]]:
    """Those of the stored attempts that a policy gradient can learn from, in the order of arrival.

    Notes how many they are, what the others can train and why not more. Raises TrainingError when there is none.
    """
    attempts = stored_attempts(context, snapshot, renderer)
    for line in stored.told(stored.usable_for([each.trajectory for _, each in attempts])):
        context.progress.note(line)
    sampled = [each for each in attempts if stored.why_no_policy(each[1].trajectory) is None]
    if not attempts:
        raise TrainingError(
            f"{context.config.pool.path!r} holds no attempt at {', '.join(context.trained_families)} of the tenant "
            f"{context.tenant!r}; take another pool or tenant, or train an agent with `upturn train grpo` on it"
        )
    if not sampled:
        raise TrainingError(
            f"{context.config.pool.path!r} holds no attempt with its sampler's log-probs; train on it with sft, "
            "dpo or kto instead"
        )
    members = Counter(task.id for task, _ in sampled)
    usable = [each for each in sampled if members[each[0].id] > 1]
    if not usable:
        raise TrainingError(
            f"each of the {len(sampled)} attempts in {context.config.pool.path!r} that have their sampler's "
            "log-probs is the only one at its task, so there is nothing to compare it with; take a pool that an "
            "agent trained on (`upturn train grpo` with this pool.path), or train on it with sft, dpo or kto"
        )
    return usable


def stored_attempts(
    context: Context, snapshot: Snapshot, renderer: Renderer
) -> list[tuple[Task, ScoredTrajectory]]:
    """All in the snapshot, in the order of arrival; those in another renderer's tokens count as rendered."""
    practice = rollout_plan(context, "offline", 1)
    selected = context.pool.selected(_chosen(context), tenant=context.tenant)
    arrival = {each.trajectory_id: place for place, each in enumerate(selected)}
    found = experiences_in(context.pool, snapshot.id, tenant=context.tenant)
    return [
        (
            each.task,
            scored(
                with_rows(each.trajectory, renderer) if each.trajectory.rows else each.trajectory,
                None if each.evaluation is None else practice.earned(each.trajectory, each.evaluation),
            ),
        )
        for each in sorted(found, key=lambda each: arrival[each.trajectory.id])
    ]


def frozen_attempts(context: Context) -> Snapshot:
    """What the pool held when the run began. Raises ConfigError without a pool to read."""
    needed_pool(context, "offline")
    return context.journal.record_step(
        "snapshot",
        Snapshot,
        lambda: take_snapshot(context.pool, tenants=[context.tenant], selection=_chosen(context)),
    )


def _chosen(context: Context) -> Selection:
    return Selection(families=tuple(context.trained_families), splits=("train",))


def versions_of(
    agent: str, known: Iterable[AgentVersion], attempts: Sequence[tuple[Task, ScoredTrajectory]]
) -> tuple[str, ...]:
    """The hashes of the agent's weights in the order in which they first sampled one of the attempts.

    ``known``: agent versions, whose attempts and those made while they were trained are the agent's.
    """
    ids = {name.id for version in known if version.agent == agent for name in (version, in_training(version))}
    own = [each.trajectory for _, each in attempts if each.trajectory.agent_version in ids]
    return tuple(dict.fromkeys(each.model_version for each in own))


OFFLINE = Algorithm(OfflineSettings, plan, train, frozenset({"pool", "rewards"}))
