"""Data points to store: trajectories of groups with tokens, and small ones without."""

import random
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from upturn.records import (
    Action,
    Evaluation,
    GateResult,
    Observation,
    Task,
    TokenRow,
    Trajectory,
    Turn,
    Usage,
    WrittenSpan,
)

GROUP = 8
PROMPT_TOKENS = 1_000
TURNS = 12
_VOCABULARY = 150_000


class DataPoint(NamedTuple):
    """What is stored of one trajectory."""

    task: Task
    trajectory: Trajectory
    evaluation: Evaluation


def groups(count: int, *, seed: int = 0, first: int = 0) -> Iterator[DataPoint]:
    """Yields the points of groups of 8: each has a prompt of 1,000 ids, and 12 turns of about 20 written tokens.

    ``first``: number of the first group.
    """
    draw = random.Random(seed)
    for group in range(first, first + count):
        prompt = _ids(draw, PROMPT_TOKENS)
        task = Task(f"group-{group}", "Move ada's mail about the budget to work.", f"family-{group % 10}", "office")
        for attempt in range(GROUP):
            yield _point((task, attempt), _turns(draw), (_row(draw, prompt),), draw)


def small_points(count: int, *, seed: int = 0) -> Iterator[DataPoint]:
    """Yields points of one turn without tokens: groups of 8, 20 families of 5 levels, 6 agent versions."""
    draw = random.Random(seed)
    turns = (Turn(Observation("one mail from ada"), "done", Action("user", "answer", {"text": "done"})),)
    for number in range(0, count, GROUP):
        group = number // GROUP
        family, level = f"family-{group % 20}", 1 + group // 20 % 5
        task = Task(f"task-{group}", "Move ada's mail to work.", family, "office", level)
        for attempt in range(min(GROUP, count - number)):
            yield _point((task, attempt), turns, (), draw)


def _ids(draw: random.Random, count: int) -> tuple[int, ...]:
    """Returns ids of which, as in texts, few are frequent: a Pareto distribution of rank."""
    return tuple(min(_VOCABULARY - 1, int(draw.paretovariate(0.35) * 10)) for _ in range(count))


def _row(draw: random.Random, prompt: tuple[int, ...]) -> TokenRow:
    ids, spans, logprobs = list(prompt), list[WrittenSpan](), list[float]()
    for turn in range(TURNS):
        written, observed = draw.randint(15, 25), draw.randint(10, 25)
        spans.append(WrittenSpan(turn, len(ids), len(ids) + written))
        ids += _ids(draw, written + observed)
        logprobs += (-draw.expovariate(2.0) for _ in range(written))
    return TokenRow(tuple(ids), tuple(spans), tuple(array("f", logprobs)))


def _turns(draw: random.Random) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            Observation(f"mail {turn} of ada: the budget of {draw.randrange(10**9)}"),
            f"mail.move id={turn} to=work",
            Action("mail", "move", {"id": turn, "to": "work"}),
            state_hash=f"{draw.getrandbits(64):016x}",
        )
        for turn in range(TURNS)
    )


def _point(
    place: tuple[Task, int], turns: tuple[Turn, ...], rows: Sequence[TokenRow], draw: random.Random
) -> DataPoint:
    """Returns the point of a (task, attempt)."""
    task, attempt = place
    name = f"{task.id}-{attempt}"
    version, score = f"nano@{draw.randrange(6)}", float(draw.random() < 0.6)
    written = sum(len(row.logprobs) for row in rows) or draw.randrange(20, 200)
    trajectory = Trajectory(
        id=f"trajectory-{name}",
        task_id=task.id,
        agent_version=version,
        turns=turns,
        final_observation=Observation("done"),
        outcome="finished",
        origin="sampled" if rows else "rendered",
        rows=tuple(rows),
        attempt=attempt,
        usage=Usage(PROMPT_TOKENS * len(turns), written, 0.25),
    )
    evaluation = Evaluation(
        id=f"evaluation-{name}",
        task_id=task.id,
        trajectory_id=trajectory.id,
        evaluator="office/1",
        verdict="success" if score else "failure",
        gates=(GateResult("untouched", True),),
        rewards={"success": score},
        costs={},
        score=score,
    )
    return DataPoint(task, trajectory, evaluation)
