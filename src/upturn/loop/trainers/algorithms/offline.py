"""Offline training: policy optimisation on trajectories in the pool, or on episodes of traffic, with the log-probs
of their sampler."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from upturn.agents import render_trajectory
from upturn.config import Config, changed_settings
from upturn.errors import ConfigError, TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker, in_training, score_trajectory
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import run_options, save_candidate
from upturn.loop.trainers.distributed_training import train_on_all_ranks
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import overlong_penalty, rollout_spec
from upturn.loop.trainers.traffic import (
    check_traffic,
    find_sampled,
    frozen_traffic,
    note_omissions,
    open_traffic,
    read_frozen,
)
from upturn.loop.trainers.training_plan import Overhead, Plan, Workload, plan_on_rows
from upturn.models import Renderer
from upturn.pool import Selection, experiences_in, take_snapshot
from upturn.records import MODEL_CALL, AgentVersion, Snapshot, Task
from upturn.training import ScoredTrajectory, policy_rows
from upturn.training.algorithms.offline import OfflineSettings
from upturn.training.data import usability

Scored: TypeAlias = tuple[Task, ScoredTrajectory]


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run; notes which of the pool's trajectories can be trained on."""
    settings = context.config.section(OfflineSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    trajectories = [scored.trajectory for _, scored in load_trajectories(context, worker.renderer).scored]
    rows = [row for trajectory in trajectories for row in policy_rows(trajectory, (0.0,) * len(trajectory.turns))]
    tasks = len({trajectory.task_id for trajectory in trajectories})
    batch = max(1, round(len(rows) * min(settings.groups, tasks) / tasks))
    description = f"{len(trajectories)} trajectories of {tasks} tasks"
    iterations = settings.iterations
    work = Workload(rows, description, iterations, "iteration", iterations * batch, batch)
    return plan_on_rows(context, worker, "offline", work, overhead=Overhead(copies=1, scorings=1))


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version."""
    from upturn.training.algorithms.offline import run_offline

    settings = context.config.section(OfflineSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    scored, snapshot = load_trajectories(context, worker.renderer)
    context.progress.stage(f"Policy optimisation on {len(scored)} stored trajectories", settings.iterations)
    options = run_options(context, worker, name, settings, reward="mean_return")
    versions: tuple[str, ...] = ()
    if settings.max_age is not None:
        versions = weights_by_age(parent.agent, context.pool.agent_versions(), scored)
    train_on_all_ranks(context.world, worker, run_offline, scored, settings, options, versions=versions)
    return save_candidate(context, worker, parent, name, snapshot=snapshot)


class LoadedTrajectories(NamedTuple):
    """The trajectories of a run."""

    scored: list[Scored]
    """In the order of arrival."""
    snapshot: str
    """Id of the snapshot that they are from."""


def load_trajectories(context: Context, renderer: Renderer) -> LoadedTrajectories:
    """The usable trajectories that the pool held when the run started; a resumed run trains on the same ones.

    A policy gradient needs log-probs in the renderer's tokens, and several trajectories of a task. Notes how many
    are usable, what the others could be used for and why not more. Raises TrainingError when there is none.
    """
    if context.config.traffic is not None:
        return _sampled_episodes(context)
    selection = Selection(families=tuple(context.trained_families), splits=("train",))
    snapshot = context.journal.record_step(
        "snapshot", Snapshot, lambda: take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    )
    stored = _score_stored(context, snapshot, selection, renderer)
    for line in usability.describe_usability(usability.count_usable([scored.trajectory for _, scored in stored])):
        context.progress.note(line)
    path = context.config.pool.path
    if not stored:
        raise TrainingError(
            f"{path!r} holds no trajectory of {', '.join(context.trained_families)} of the tenant "
            f"{context.tenant!r}; use another pool or tenant, or train an agent with `upturn train grpo` on it"
        )
    sampled = [(task, scored) for task, scored in stored if usability.exclusion_reason(scored.trajectory) is None]
    if not sampled:
        raise TrainingError(
            f"{path!r} holds no trajectory with its sampler's log-probs; train on it with sft, dpo or kto instead"
        )
    group_sizes = Counter(task.id for task, _ in sampled)
    usable = [(task, scored) for task, scored in sampled if group_sizes[task.id] > 1]
    if not usable:
        raise TrainingError(
            f"each of the {len(sampled)} trajectories in {path!r} with their sampler's log-probs is the only one "
            "of its task, so there is nothing to compare it with; use a pool that an agent trained on (`upturn "
            "train grpo` with this pool.path), or train on it with sft, dpo or kto"
        )
    return LoadedTrajectories(usable, snapshot.id)


def _sampled_episodes(context: Context) -> LoadedTrajectories:
    """Episodes of traffic, with the task of their prompt. Notes how many are left out."""
    settings, agent = context.config.section(OfflineSettings), context.config.improved_agent
    assert agent is not None
    version = context.router.registry.served(agent.name).incumbent

    def find() -> Mapping[str, float]:
        traffic = open_traffic(context, version)
        found = find_sampled(traffic, settings)
        note_omissions(context, found)
        return {item.trajectory.id: traffic.rewards[item.trajectory.id] for item in found.items}

    frozen, penalty = frozen_traffic(context, find), overlong_penalty(context.config.rewards)
    read = {item.trajectory.id: item for item in read_frozen(context, version, frozen)}
    scored = []
    for row in context.pool.selected(Selection(environments=(MODEL_CALL,)), tenant=context.tenant):
        if row.trajectory_id in read:
            task, trajectory, _ = read[row.trajectory_id]
            reward = frozen.rewards[trajectory.id] + (0.0 if penalty is None else penalty(trajectory))
            scored.append((task, score_trajectory(trajectory, reward)))
    return LoadedTrajectories(scored, frozen.snapshot)


def _score_stored(context: Context, snapshot: Snapshot, selection: Selection, renderer: Renderer) -> list[Scored]:
    """All in the snapshot, in the order of arrival; those in another renderer's tokens count as rendered."""
    spec = rollout_spec(context, "offline", 1, advantage=context.config.section(OfflineSettings).advantage)
    selected = context.pool.selected(selection, tenant=context.tenant)
    arrival = {record.trajectory_id: position for position, record in enumerate(selected)}
    stored = list(experiences_in(context.pool, snapshot.id, tenant=context.tenant))
    stored.sort(key=lambda experience: arrival[experience.trajectory.id])
    scored = []
    for experience in stored:
        trajectory, evaluation = experience.trajectory, experience.evaluation
        value = None if evaluation is None else spec.reward(trajectory, evaluation)
        rendered = render_trajectory(trajectory, renderer) if trajectory.rows else trajectory
        member = score_trajectory(rendered, value)
        if spec.components is not None and evaluation is not None:
            member = replace(member, components=spec.components(trajectory, evaluation))
        scored.append((experience.task, member))
    return scored


def weights_by_age(agent: str, versions: Iterable[AgentVersion], scored: Sequence[Scored]) -> tuple[str, ...]:
    """Hashes of the agent's weights in the order in which they first sampled one of the trajectories.

    ``versions``: their trajectories, and those sampled while they were trained, are the agent's.
    """
    ids = {name.id for version in versions if version.agent == agent for name in (version, in_training(version))}
    trajectories = [member.trajectory for _, member in scored if member.trajectory.agent_version in ids]
    return tuple(dict.fromkeys(version for trajectory in trajectories for version in trajectory.model_versions))


def check(config: Config) -> None:
    """Raises ConfigError for settings of rewards that feedback on traffic does not have."""
    if config.traffic is None:
        return
    reason = "has no effect with [traffic], where feedback is the reward; omit it"
    used = ("name", "version", "overlong_tokens", "overlong_buffer")
    problems = [
        f"{text} {reason}" for name, text in changed_settings(config.rewards, "rewards") if name not in used
    ]
    estimator = config.section(OfflineSettings).advantage.estimator
    if estimator == "components":
        problems.append(f"offline.advantage.estimator = {estimator!r} {reason}")
    if problems:
        raise ConfigError(problems)


def ready(context: Context) -> None:
    """Raises TrainingError where ``[traffic]`` has nothing to train on."""
    check_traffic(context, "offline")


OFFLINE = Algorithm(
    OfflineSettings, plan, train, frozenset({"pool", "traffic", "rewards"}), check=check, ready=ready
)
