"""``python -m benchmarks.pool.writer LOCATION NUMBER``: stores groups of trajectories until it is killed.

Each group of trajectories is one write with its task and evaluations. When it is acknowledged, the id of its task
is a line on standard output. Writers of different numbers store different groups.
"""

import sys
from collections.abc import Iterator

from benchmarks.pool.workload import GROUP, groups
from upturn.pool import Pool
from upturn.records import Evaluation, Trajectory

_GROUPS_OF_A_WRITER = 1_000_000


def stored_groups(pool: Pool, number: int) -> Iterator[str]:
    """Stores one group after the other; yields the id of its task when it is acknowledged."""
    records: list[Trajectory | Evaluation] = []
    for point in groups(_GROUPS_OF_A_WRITER, seed=number, first=number * _GROUPS_OF_A_WRITER):
        records += (point.trajectory, point.evaluation)
        if len(records) == 2 * GROUP:
            pool.append(point.task, *records)
            records.clear()
            yield point.task.id


if __name__ == "__main__":
    for task_id in stored_groups(Pool.open(sys.argv[1]), int(sys.argv[2])):
        sys.stdout.write(f"{task_id}\n")
        sys.stdout.flush()
