"""The pool's routing decisions with their outcomes, for off-policy estimates and for the best agent.

An outcome is a value of one metric of feedback; of the primary metric and of ``success``, an evaluation's verdict
where there is one. Decisions in which the client named the version are left out: the router did not choose.

Which evaluation belongs to a decision: that of its episode's trajectory if there is one, else that of the first
trajectory of its task and version that was stored after it, is no training rollout, and belongs to no earlier
decision. Which feedback: the first value of the metric on the decision, else on its episode, else on its
trajectory.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic_core import from_json
from sqlalchemy import select

from upturn.arbiter import LoggedOutcome
from upturn.config import THUMBS, MetricConfig, declared_metrics
from upturn.errors import RecordError
from upturn.loop.online.routes import NAMED
from upturn.pool import Pool, schema
from upturn.records import Decision, Feedback, FeedbackSubject, Task, episode_task_id

SUCCESS = "success"
"""The metric of evaluations: 1 for a success, 0 for a failure."""


class DecisionLog(NamedTuple):
    """The decisions of one tenant, in the order of arrival."""

    logged: tuple[LoggedOutcome, ...]
    tasks: Mapping[str, Task]
    """The stored tasks by id; a call's task is not stored."""


class _Trajectory(NamedTuple):
    id: str
    sequence: int


def read_decision_log(
    pool: Pool, *, tenant: str, metric: str = "", metrics: Sequence[MetricConfig] = ()
) -> DecisionLog:
    """Returns the tenant's decisions with the outcomes of one metric.

    ``metric``: empty = the primary one. ``metrics``: the configured ones, which say what a value is worth.
    ``thumbs`` above 0 is 1, below 0 is 0, and 0 is missing. Values of undeclared metrics must lie in [0, 1]; raises
    RecordError for others, because estimates need bounded rewards."""
    declared = declared_metrics(metrics)
    name = metric or declared[0].name
    decisions = [decision for decision in pool.decisions(tenant=tenant) if decision.policy != NAMED]
    trajectories = _trajectories(pool, tenant, decisions)
    rewards_of = {member.name: member.reward for member in declared} | {THUMBS: _thumbs_reward}
    outcomes = _feedback_outcomes(
        pool.feedback(tenant=tenant), name, decisions, trajectories, reward=rewards_of.get(name) or _bounded(name)
    )
    if name in (SUCCESS, declared[0].name):
        verdicts = {row.trajectory_id: row.verdict for row in pool.selected(tenant=tenant)}
        rewards = {"success": 1.0, "failure": 0.0}
        judged = {key: rewards.get(verdicts.get(value, "missing")) for key, value in trajectories.items()}
        outcomes |= {key: value for key, value in judged.items() if value is not None}
    needed = {decision.task_id for decision in decisions}
    used = _used(pool, tenant, trajectories)
    return DecisionLog(
        tuple(
            LoggedOutcome(decision, outcomes.get(decision.id), *used.get(decision.id, (None, None)))
            for decision in decisions
        ),
        {task.id: task for task in pool.tasks(tenant=tenant, ids=sorted(needed))},
    )


def _used(pool: Pool, tenant: str, trajectories: Mapping[str, str]) -> Mapping[str, tuple[float | None, float]]:
    """Returns what each decision's call or task cost in USD (None = unknown) and its seconds, by decision."""
    durations = select(schema.trajectories.c.id, schema.trajectories.c.seconds)
    calls = select(schema.calls.c.id, schema.calls.c.cost_usd, schema.calls.c.fields)
    with pool.engine.connect() as connection:
        rows = connection.execute(durations.where(schema.trajectories.c.tenant == tenant))
        seconds = {row.id: row.seconds for row in rows}
        used = {
            row.id: (row.cost_usd, float(from_json(row.fields)["seconds"]))
            for row in connection.execute(calls.where(schema.calls.c.tenant == tenant))
        }
    of_tasks = {key: (None, seconds[value]) for key, value in trajectories.items() if value in seconds}
    return {**of_tasks, **used}


def _trajectories(pool: Pool, tenant: str, decisions: Iterable[Decision]) -> Mapping[str, str]:
    """Returns the id of each decision's trajectory by the decision's id, where there is one."""
    table, rollouts = schema.trajectories, schema.rollouts
    trained = select(rollouts.c.trajectory_id)
    query = (
        select(table.c.id, table.c.task_id, table.c.agent_version, table.c.sequence)
        .where(table.c.tenant == tenant, table.c.id.not_in(trained))
        .order_by(table.c.sequence)
    )
    of_version: defaultdict[tuple[str, str], list[_Trajectory]] = defaultdict(list)
    of_task: dict[str, str] = {}
    with pool.engine.connect() as connection:
        for row in connection.execute(query):
            of_version[row.task_id, row.agent_version].append(_Trajectory(row.id, row.sequence))
            of_task[row.task_id] = row.id
        stored = select(schema.decisions.c.id, schema.decisions.c.sequence)
        stored = stored.where(schema.decisions.c.tenant == tenant)
        arrival = {row.id: row.sequence for row in connection.execute(stored)}
    matched: dict[str, str] = {}
    for decision in decisions:
        if decision.episode is not None:
            whole = of_task.get(episode_task_id(tenant, decision.episode))
            if whole is not None:
                matched[decision.id] = whole
                continue
        waiting = of_version[decision.task_id, decision.chosen]
        while waiting and waiting[0].sequence < arrival[decision.id]:
            waiting.pop(0)
        if waiting:
            matched[decision.id] = waiting.pop(0).id
    return matched


def _feedback_outcomes(
    feedback: Iterable[Feedback],
    metric: str,
    decisions: Iterable[Decision],
    trajectories: Mapping[str, str],
    *,
    reward: Callable[[float], float | None],
) -> dict[str, float | None]:
    first: dict[tuple[FeedbackSubject, str], float] = {}
    for value in feedback:
        if value.metric == metric:
            first.setdefault((value.subject_kind, value.subject_id), value.value)
    outcomes: dict[str, float | None] = {}
    for decision in decisions:
        subjects: list[tuple[FeedbackSubject, str | None]] = [
            ("decision", decision.id),
            ("episode", decision.episode),
            ("trajectory", trajectories.get(decision.id)),
        ]
        values = [first[kind, name] for kind, name in subjects if name is not None and (kind, name) in first]
        outcomes[decision.id] = reward(values[0]) if values else None
    return outcomes


def _thumbs_reward(value: float) -> float | None:
    return None if value == 0 else float(value > 0)


def _bounded(metric: str) -> Callable[[float], float | None]:
    """Returns the reward of values of an undeclared metric: themselves, in [0, 1]."""

    def reward(value: float) -> float | None:
        if not 0 <= value <= 1:
            raise RecordError(
                f"a value of the metric {metric!r} is {value!r}, but off-policy estimates need rewards in [0, 1]; "
                "declare the metric in [[gateway.metrics]], or name another one"
            )
        return value

    return reward
