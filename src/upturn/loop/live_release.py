"""Releases while tasks are served: starting them, and the evidence of each wave.

The pool has the state of every release. Each step reads it in the transaction that stores the next one, so that an
operator's act is never overwritten, and a decided release takes no more evidence.
"""

from collections.abc import Sequence

from upturn.config import CanarySettings
from upturn.deployment import OPEN_STATES, Canary, check_free, episodes_of
from upturn.deployment import Served as CanaryTask
from upturn.errors import ReleaseError
from upturn.loop.canary_traffic import reserved_policy
from upturn.loop.run import Context
from upturn.loop.service import Served
from upturn.pool import Pool, States, current_state
from upturn.records import Release


def serve_wave(context: Context, count: int) -> list[Served]:
    """Serves the next tasks under the releases and limits that the pool has now."""
    context.in_service.sync()
    agents = [release.agent for release in context.in_service.open_releases()]
    context.router.policy = reserved_policy(context.policy, agents)
    try:
        return context.service.serve(context.next_tasks(count))
    finally:
        context.router.policy = context.policy


def is_next_stored(context: Context) -> bool:
    """Returns whether the next task has been served, before the step was interrupted."""
    position = context.position.tasks_served
    tasks = context.next_tasks(1)
    context.position.tasks_served = position
    stored = context.pool.decisions(tenant=context.tenant, task_ids=[task.id for task in tasks])
    ids = {context.router.decision_id(task) for task in tasks}
    return any(decision.id in ids for decision in stored)


def begin_release(context: Context, release: Release) -> Release:
    """Returns the stored state of the release, which is stored now unless it is already.

    Raises ReleaseError if another release of the agent is open, or another version serves by now.
    """

    def begin(states: States[Release]) -> Release:
        known = states.get(release.id)
        if known is not None:
            return known
        check_free(release.agent, states.all())
        return release

    if current_state(context.pool, Release, release.id) is not None:
        return context.pool.change(Release, begin)
    context.in_service.sync()
    serving = context.router.registry.served(release.agent).incumbent.id
    if serving != release.incumbent:
        raise ReleaseError(
            f"{release.candidate} was compared with {release.incumbent}, but {serving} serves by now; "
            "it needs another validation"
        )
    return context.pool.change(Release, begin)


def observe(
    pool: Pool, release_id: str, wave: Sequence[Served], settings: CanarySettings, *, is_repeat: bool = False
) -> Release:
    """Returns the release with the wave as its next block; unchanged if it is decided.

    ``is_repeat``: the wave was served before, so that it may be counted already."""
    return take_evidence(pool, release_id, _outcomes(wave), settings, has_empty=not is_repeat)


def take_evidence(
    pool: Pool, release_id: str, tasks: Sequence[CanaryTask], settings: CanarySettings, *, has_empty: bool = True
) -> Release:
    """Returns the release with its part of the tasks as the next block; unchanged if it is decided.

    ``has_empty``: whether a block without a new episode counts. In the loop it is a sign that the agent gets no
    tasks; where outcomes arrive one by one, it is none.
    """

    def step(states: States[Release]) -> Release:
        current = states.get(release_id)
        assert current is not None, release_id  # releases are never deleted
        if current.state not in OPEN_STATES:
            return current
        block = episodes_of(current, tasks, settings)
        if not (block or has_empty):
            return current
        moved = Canary(settings).step(current, block)
        return moved if has_empty or moved.counted != current.counted else current

    return pool.change(Release, step)


def observe_open(context: Context, wave: Sequence[Served]) -> None:
    """Gives every open release the wave's tasks that belong to it and that it has not counted yet.

    These are releases that operators have started, and held ones. A wave without such tasks is no block: unlike in
    the loop's own canaries, the agent may have none of the wave's tasks.
    """
    for release in context.in_service.open_releases():
        moved = take_evidence(context.pool, release.id, _outcomes(wave), context.config.canary, has_empty=False)
        if moved.state != release.state:
            context.progress.note(f"release {moved.id} of {moved.candidate}: {moved.state}")


def _outcomes(wave: Sequence[Served]) -> list[CanaryTask]:
    return [CanaryTask(served.decision, served.evaluation) for served in wave]
