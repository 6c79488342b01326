"""A batch of data points (``get_batch``): what it is, and its points line by line."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from upturn.pool.answers.answer import Answer
from upturn.pool.batches import Batch
from upturn.pool.ingestion import keep_borders
from upturn.pool.privacy import anonymise, mask
from upturn.pool.reader import Experience, PoolReader
from upturn.records import MODEL_CALL, JsonValue, Result, fields_json

MOST_POINTS = 10_000
"""Largest batch over HTTP; larger ones are drawn on the command line."""
_PAGE = 100
Contents: TypeAlias = Literal["none", "anonymised", "raw"]
"""``none``: the ids, verdict and score of each point; otherwise also its task, trajectory and evaluation."""


def batch_answer(drawn: Batch, *, snapshot: str = "") -> Answer:
    """Returns what the batch consists of; ``snapshot``: id of the one that it is frozen as, empty = none."""
    points = drawn.points
    results = [
        Result("points", float(len(points)), n=drawn.available),
        Result("available", float(drawn.available), "points"),
        Result("tasks", float(len({point.task_id for point in points}))),
        Result("held_out", float(sum(point.is_held_out for point in points)), "points"),
    ]
    return Answer(results, ({"snapshot": snapshot} if snapshot else {}) | batch_details(drawn))


def batch_details(drawn: Batch) -> dict[str, JsonValue]:
    """Returns how the batch was drawn, and its points by family, version and verdict."""
    points = drawn.points
    return {
        "tenant": drawn.draw.tenant,
        "seed": drawn.draw.seed,
        "bound": drawn.draw.bound,
        "criteria": json.loads(drawn.draw.criteria.text),
        "families": dict(sorted(Counter(point.family for point in points).items())),
        "agent_versions": dict(sorted(Counter(point.agent_version for point in points).items())),
        "verdicts": dict(sorted(Counter(point.verdict for point in points).items())),
    }


def point_lines(pool: PoolReader, drawn: Batch, contents: Contents = "none") -> Iterator[str]:
    """Yields one line of JSON for each point, with its line break, as records are read.

    Anonymised trajectories of gateway episodes have no tokens: these hold tools and prompts that no turn shows."""
    for start in range(0, len(drawn.points), _PAGE):
        page = drawn.points[start : start + _PAGE]
        if contents == "none":
            yield from (json.dumps(point._asdict()) + "\n" for point in page)
            continue
        ids = [point.trajectory_id for point in page]
        read = pool.experiences_of(ids, tenant=drawn.draw.tenant, until=drawn.draw.bound)
        for point, experience in zip(page, read, strict=True):
            shown = experience if contents == "raw" else _anonymous(experience)
            written = ["null" if record is None else fields_json(record) for record in shown]
            records = f'"task": {written[0]}, "trajectory": {written[1]}, "evaluation": {written[2]}'
            yield f"{json.dumps(point._asdict()).removesuffix('}')}, {records}}}\n"


def _anonymous(experience: Experience) -> Experience:
    task, trajectory, evaluation = experience
    clean = anonymise(trajectory)
    clean = keep_borders(trajectory, clean, mask)
    if task.environment == MODEL_CALL and clean.rows:
        clean = replace(clean, rows=())
    return Experience(anonymise(task), clean, None if evaluation is None else anonymise(evaluation))
