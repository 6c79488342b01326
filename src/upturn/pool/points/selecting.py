"""The points of a selection, with the current evaluations."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from upturn.pool import schema
from upturn.pool.points.columns import PointColumns, read_points
from upturn.pool.points.point import VERDICTS
from upturn.pool.selection import Scope, Selection
from upturn.pool.tags import tagged_tasks


def select_points(connection: Connection, selection: Selection, *, tenant: Scope) -> PointColumns:
    """Returns the points of the trajectories that ``select_trajectories`` selects, from one state of the pool."""
    among = {
        "family": selection.families,
        "environment": selection.environments,
        "split": selection.splits,
        "agent_version": selection.agent_versions,
        "origin": selection.origins,
    }
    points = read_points(connection, tenant=tenant, among=among)
    mask = np.ones(len(points.rows), bool)
    if selection.verdicts:
        mask &= np.isin(points.rows["verdict"], [VERDICTS.index(verdict) for verdict in selection.verdicts])
    if selection.min_score is not None:
        mask &= points.rows["score"] >= selection.min_score  # False for NaN: there is no score
    if selection.since is not None:
        mask &= points.rows["recorded_at"] >= selection.since
    if selection.before is not None:
        mask &= points.rows["recorded_at"] < selection.before
    if selection.run is not None:
        mask &= np.isin(points.rows["trajectory"], _rolled_out(connection, selection))
    mask &= has_tags(connection, points, selection.tags)
    points = points if mask.all() else points.where(mask)
    if selection.limit_per_family is not None:
        families = {stratum.family: number for number, stratum in enumerate(points.strata)}
        family = np.array([families[stratum.family] for stratum in points.strata], np.int64)
        points = points.where(_latest(points, family[points.stratum], selection.limit_per_family))
    if selection.limit is not None:
        points = points.where(_latest(points, np.zeros(len(points.rows), np.int64), selection.limit))
    return points


def has_tags(
    connection: Connection, points: PointColumns, tags: Sequence[str], *, until: int | None = None
) -> NDArray[np.bool_]:
    """Returns a mask of the points whose tasks have all of these tags. (N,)

    ``until``: as they were when this was the pool's last sequence number; None = now.
    """
    mask = np.ones(len(points.rows), bool)
    for tag in tags:
        tasks = connection.execute(select(tagged_tasks(tag, until).c.task)).scalars()
        mask &= np.isin(points.rows["task"], np.array(list(tasks), np.int64))
    return mask


def _rolled_out(connection: Connection, selection: Selection) -> list[int]:
    """Returns the sequence numbers of the run's or the iteration's trajectories."""
    rollouts = schema.rollouts.c
    wanted: Mapping[str, object] = {"run": selection.run, "iteration": selection.iteration}
    conditions = [rollouts[name] == value for name, value in wanted.items() if value is not None]
    appended = select(rollouts.trajectory_id).where(*conditions)
    table = schema.trajectories.c
    return list(connection.execute(select(table.sequence).where(table.id.in_(appended))).scalars())


def _latest(points: PointColumns, group: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    """Returns a mask of the ``limit`` latest trajectories of each group. (N,)"""
    order = np.lexsort((-points.column("trajectory"), group))
    grouped = group[order]
    rank = np.arange(len(order)) - np.searchsorted(grouped, grouped)
    mask = np.zeros(len(order), bool)
    mask[order] = rank < limit
    return mask
