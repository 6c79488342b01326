"""Stored tasks that an environment can begin again, so that they can be sampled on policy."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from upturn.environments import EnvironmentKit, is_blocking
from upturn.errors import StoreError, UpturnError
from upturn.pool import PoolReader
from upturn.pool.traffic import prompt_task_id
from upturn.records import MODEL_CALL, Task

MOST_TASKS = 10_000
"""Default of the largest number of tasks: each is begun once, to see that it can be."""
HELD_OUT = 0.25
"""Default share of held-out tasks."""


class Replay(NamedTuple):
    """Tasks to sample again."""

    tasks: Sequence[Task]
    """In the order of arrival."""
    left_out: Mapping[str, int]
    """Number of others by cause: ``repeated`` (equal to an earlier one) and ``unfit`` (cannot be begun)."""
    refusal: str
    """Why there are too few, and what to do; empty = there are enough."""


def find_tasks(
    pool: PoolReader,
    kit: EnvironmentKit,
    *,
    tenant: str,
    has_episodes: bool = False,
    limit: int = MOST_TASKS,
) -> Replay:
    """The tenant's tasks that the kit can begin, at most the first ``limit``; of equal ones the first.

    ``has_episodes``: also the first messages of the gateway's sealed episodes, as tasks of this kit. Environments
    that wait for a network or a process are not begun.
    """
    tasks: dict[str, Task] = {}
    left_out = Counter(repeated=0, unfit=0)
    for task in _candidates(pool, kit.name, tenant, has_episodes=has_episodes):
        if len(tasks) == limit:
            break
        text = " ".join(task.instruction.split())
        key = json.dumps([task.family, task.level, task.seed, text, dict(task.context)], sort_keys=True)
        if key in tasks:
            left_out["repeated"] += 1
        elif _can_begin(kit, task):
            tasks[key] = task
        else:
            left_out["unfit"] += 1
    refusal = ""
    if len(tasks) < 2:
        begun = f" and {left_out['unfit']} that it cannot begin" if left_out["unfit"] else ""
        refusal = (
            f"{str(pool.location)!r} holds {len(tasks)} different task{'s' * (not tasks)} of the environment "
            f"{kit.name!r} of the tenant {tenant!r}{begun}, and training needs two: one is held out. Submit tasks "
            "(POST /v1/tasks), or make tasks of conversations for an environment of your own (`upturn pool tasks "
            "--episodes`)"
        )
    return Replay(tuple(tasks.values()), left_out, refusal)


def split_tasks(tasks: Sequence[Task], held_out: float = HELD_OUT) -> list[Task]:
    """The tasks with their splits: those that are held out stay so, others are by a hash of their ids.

    A task's split does not change while others are added. At least one task is in each split; raises StoreError
    for fewer than two tasks.
    """
    if len(tasks) < 2:
        raise StoreError(f"training and evaluation need a task each, got {len(tasks)}")
    kept = {task.id for task in tasks if task.split == "heldout"}
    others = sorted((task for task in tasks if task.id not in kept), key=lambda task: _share(task.id))
    chosen = kept | {task.id for task in others if _share(task.id) < held_out}
    if not chosen:
        chosen = {others[0].id}
    if others and len(chosen) == len(tasks):
        chosen -= {others[-1].id}
    return [replace(task, split="heldout" if task.id in chosen else "train") for task in tasks]


def _candidates(pool: PoolReader, environment: str, tenant: str, *, has_episodes: bool) -> Iterator[Task]:
    yield from pool.tasks(tenant=tenant, environments=(environment,))
    if has_episodes:
        for task in pool.tasks(tenant=tenant, environments=(MODEL_CALL,)):
            if task.instruction:
                name = prompt_task_id(tenant, task.instruction)
                yield replace(task, id=name, environment=environment, episode=None)


def _can_begin(kit: EnvironmentKit, task: Task) -> bool:
    try:
        environment = kit.environment(task)
        if not is_blocking(environment):
            environment.reset(task)
    except (UpturnError, ValueError, LookupError, TypeError):  # what kits raise for a task of another world
        return False
    return True


def _share(task_id: str) -> float:
    """A number in [0, 1), the same for a task wherever it is."""
    name = task_id.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=4, person=b"replay").digest()) / 2**32
