"""Whether examples of similar successes help an agent: with and without them, on the same held-out tasks.

The memory is what the oracle did on training tasks of the office, written as the agent writes actions, so that the
examples are right and in its own language. Also measured: how often the most similar success is of the task's own
family, which the search does not see.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from upturn.config import Limits
from upturn.environments import draw_tasks
from upturn.environments.office import OfficeKit
from upturn.loop import AgentRuntime, Purpose
from upturn.loop.evaluation import evaluate_version, run_oracle
from upturn.pool import Pool, PoolRecall
from upturn.records import AgentVersion, Result, Task

LIMITS = Limits(max_turns=12, max_tokens=1024)
NANO = AgentVersion("nano", "base", "local_model", model="nano", parameters={"temperature": 0.0})


@contextmanager
def filled_pool(tasks: Sequence[Task]) -> Iterator[Pool]:
    """A pool with the oracle's trajectories of these tasks."""
    with TemporaryDirectory() as folder, Pool.open(Path(folder) / "pool.db") as pool:
        for result in run_oracle(tasks):
            pool.append(result.task, result.trajectory, result.evaluation)
        yield pool


def measure_recall(
    families: Sequence[str],
    *,
    stored: int,
    heldout: int,
    numbers: Sequence[int],
    on_done: Callable[[], object],
    agent: AgentVersion = NANO,
) -> list[Result]:
    """Returns the agent's success rates with 0 and ``numbers`` examples, and the gains with their intervals."""
    kit = OfficeKit()
    known = list(islice(draw_tasks(kit, seed=0, split="train", families=families), stored))
    tasks = list(islice(draw_tasks(kit, seed=1, split="heldout", families=families), heldout))
    with filled_pool(known) as pool:
        recall = PoolRecall(pool)
        results = _nearest_families(recall, tasks, len(families))
        runtime = AgentRuntime(kit, LIMITS, recall=recall)
        before = None
        for number in (0, *numbers):
            parameters = {**agent.parameters, "examples": number}
            version = replace(agent, version=f"{number}", parameters=parameters)
            measured = evaluate_version(runtime, version, tasks, Purpose("recall", 0), pool=None)
            results.append(measured.interval().result(f"success_with_{number}"))
            if before is not None:
                results.append(measured.gain_over(before).result(f"gain_with_{number}"))
            before = before or measured
            on_done()
    return results


def _nearest_families(recall: PoolRecall, tasks: Sequence[Task], families: int) -> list[Result]:
    nearest = [recall.similar(task, 1) for task in tasks]
    pairs = zip(tasks, nearest, strict=True)
    same = sum(bool(found) and found[0].task.family == task.family for task, found in pairs)
    return [
        Result("same_family", same / len(tasks), n=len(tasks)),
        Result("same_family_by_chance", 1 / families, n=len(tasks)),
    ]
