"""Where training's finished rollouts go, without training knowing the pool."""

from collections.abc import Sequence

from upturn.pool.batch import PoolBatch, RolloutKey
from upturn.pool.store import Pool
from upturn.records import Evaluation, Task, Trajectory


class PoolSink:
    """A ``records.TrajectorySink`` that appends to a pool; a (run, iteration) is stored once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Durable when it returns, all or nothing; a key that is stored already is left as it is."""
        tasks = {task.id: task for task, _, _ in finished}
        self._pool.append(
            PoolBatch(
                tasks=list(tasks.values()),
                trajectories=[trajectory for _, trajectory, _ in finished],
                evaluations=[evaluation for _, _, evaluation in finished],
                rollout=RolloutKey(run, iteration),
            )
        )
