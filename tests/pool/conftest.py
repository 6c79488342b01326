"""Data points for the tests of the pool."""

from collections.abc import Callable, Iterator

import pytest

from upturn.pool import Location, Pool
from upturn.pool.access import set_policy
from upturn.records import (
    Action,
    Evaluation,
    EvaluationVerdict,
    GateResult,
    Observation,
    Task,
    TokenRow,
    Trajectory,
    Turn,
    Usage,
    WrittenSpan,
)

Point = tuple[Task, Trajectory, Evaluation]


def share(pool: Pool, *tenants: str, is_shared: bool = True) -> None:
    """Lets other tenants train on the records of these, or ends it."""
    for tenant in tenants:
        set_policy(pool, {"share": is_shared}, tenant=tenant, who="ana", why="contract", when=1.0)


def build_point(
    name: str,
    *,
    task: str = "",
    family: str = "mail",
    tenant: str = "default",
    agent: str = "nano@1",
    verdict: EvaluationVerdict = "success",
    score: float | None = 1.0,
) -> Point:
    """Returns a clean data point with two turns: one calls a tool, the other answers."""
    task_id = task or f"task-{name}"
    turns = (
        Turn(
            Observation("one mail from ada"),
            "mail.move id=3 to=work",
            Action("mail", "move", {"id": 3, "to": "work"}),
            costs={"error": 1.0},
            state_hash="ab12",
        ),
        Turn(Observation("moved"), "done", Action("user", "answer", {"text": "done"}), reward=0.5),
    )
    row = TokenRow((5, 6, 7, 8, 9), (WrittenSpan(0, 1, 3), WrittenSpan(1, 4, 5)), (-0.5, -0.25, -1.5))
    trajectory = Trajectory(
        id=f"trajectory-{name}",
        task_id=task_id,
        agent_version=agent,
        turns=turns,
        final_observation=Observation("", "ok"),
        outcome="finished",
        origin="sampled",
        rows=(row,),
        attempt=1,
        seed=7,
        temperature=1.0,
        model_version="feed",
        final_state={"moved": [3]},
        usage=Usage(3, 3, 0.25),
    )
    evaluation = Evaluation(
        id=f"evaluation-{name}",
        task_id=task_id,
        trajectory_id=trajectory.id,
        evaluator="office/1",
        verdict=verdict,
        gates=(GateResult("untouched", True),),
        rewards={"success": score},
        costs={"error": 1.0},
        score=score,
    )
    return Task(task_id, "Move ada's mail to work.", family, "office", tenant=tenant), trajectory, evaluation


@pytest.fixture
def make_point() -> Callable[..., Point]:
    return build_point


@pytest.fixture
def pool(location: Location) -> Iterator[Pool]:
    with Pool.open(location, clock=lambda: 1000.0) as opened:
        yield opened
