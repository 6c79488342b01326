"""The evaluations of a training run's rollouts, by iteration."""

from sqlalchemy import select

from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import Scope, in_scope
from upturn.records import Evaluation, from_fields


def rollout_evaluations(pool: PoolReader, run: str, *, tenant: Scope) -> dict[int, list[Evaluation]]:
    """Returns the evaluations that the rollouts of the run were stored with, by iteration, in order."""
    rollouts, evaluations = schema.rollouts, schema.evaluations
    query = (
        select(rollouts.c.iteration, evaluations.c.fields)
        .join(evaluations, evaluations.c.id == rollouts.c.evaluation_id)
        .where(rollouts.c.run == run, *in_scope(evaluations.c.tenant, tenant))
        .order_by(rollouts.c.iteration, rollouts.c.position)
    )
    by_iteration: dict[int, list[Evaluation]] = {}
    with pool.engine.connect() as connection:
        for iteration, fields in connection.execute(query):
            by_iteration.setdefault(iteration, []).append(from_fields(Evaluation, fields))
    return by_iteration
