from collections.abc import Callable
from dataclasses import replace

from upturn.pool import ALL_TENANTS, Pool, PoolSink
from upturn.pool.quality import IMPORTED, Share, coverage
from upturn.records import AgentVersion, Alternative, Decision, Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def decide(task: Task, chosen: str = "nano@1") -> Decision:
    choice = (Alternative(chosen, 1.0, None),)
    return Decision(
        f"d-{task.id}",
        task.id,
        task.family,
        task.tenant,
        "thompson",
        "hash",
        choice,
        "nano",
        chosen,
        1.0,
        "only one",
    )


def test_each_share_counts_what_is_missing(pool: Pool, make_point: MakePoint) -> None:
    done, unevaluated, verdict_missing, not_executed, undecided, waiting = (
        make_point(name)
        for name in ("done", "unevaluated", "verdict-missing", "not-executed", "undecided", "waiting")
    )
    rollout, imported = make_point("rollout"), make_point("imported")
    missing = replace(verdict_missing[2], verdict="missing", score=None)
    wrong_version = replace(not_executed[1], agent_version="rules@1")
    pool.append(
        *(point[0] for point in (done, unevaluated, verdict_missing, not_executed, undecided, waiting)),
        replace(imported[0], environment=IMPORTED),
        *(decide(point[0]) for point in (done, unevaluated, verdict_missing, not_executed)),
        *(point[1] for point in (done, unevaluated, verdict_missing, undecided, imported)),
        wrong_version,
        *(done[2], missing, undecided[2], imported[2]),
        *(AgentVersion("nano", version, "local_model") for version in ("1", "2")),
    )
    PoolSink(pool).append("run", 0, [rollout])
    covered = coverage(pool, tenant="default")
    # Routed are six tasks: neither the task of the rollout nor the imported one.
    assert covered.routing == Share(4, 6)
    assert covered.execution == Share(3, 4)
    assert covered.evaluation == Share(1, 3)
    assert covered.agents == Share(1, 2)
    assert coverage(pool, tenant="default", in_service=["nano@1"]).agents == Share(1, 1)
    assert coverage(pool, tenant=ALL_TENANTS) == covered
    assert coverage(pool, tenant="other").routing == Share(0, 0)


def test_served_task_counts_although_training_uses_it_too(pool: Pool, make_point: MakePoint) -> None:
    served, again = make_point("a"), make_point("b", task="task-a")
    pool.append(*served)
    PoolSink(pool).append("run", 0, [again])
    assert coverage(pool, tenant="default").routing == Share(0, 1)


def test_coverage_of_an_empty_pool_is_complete() -> None:
    assert Share(0, 0).value == 1.0
    assert Share(1, 4).value == 0.25
