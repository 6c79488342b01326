"""The narrow table of data points: a row for each state of a trajectory's evaluation.

A point repeats, as numbers of a fixed width, what criteria and statistics ask about, so that a million of them are
read as one array and no record is. What many have in common (tenant, family, agent version, …) is a stratum. A
later evaluation ends a point (``until``) and begins another one, so the points of any earlier sequence number can
be read again.

Points are derived from the records; ``ledger_problems`` compares them. ``point`` has their form, ``writing`` stores
them with their records, ``columns`` and
``selecting`` read them. Start with ``point``.
"""

from upturn.pool.points.columns import PointColumns, field_among, read_points
from upturn.pool.points.point import VERDICTS, Point, Stratum, point_of, stratum_id, stratum_of
from upturn.pool.points.selecting import has_tags, select_points
from upturn.pool.points.writing import StoredTask, add_points

__all__ = [
    "VERDICTS",
    "Point",
    "PointColumns",
    "StoredTask",
    "Stratum",
    "add_points",
    "field_among",
    "has_tags",
    "point_of",
    "read_points",
    "select_points",
    "stratum_id",
    "stratum_of",
]
