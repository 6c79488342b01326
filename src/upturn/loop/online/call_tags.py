"""Tags that clients give their calls: they become those of the task that the call's episode is sealed as."""

from upturn.loop.online.arrival import Decided
from upturn.loop.online.call_log import CallLog
from upturn.pool import imported_tag
from upturn.pool.access import Border
from upturn.records import episode_task_id

_MOST_KNOWN = 10_000
"""Tags in memory; a forgotten one is stored again, which changes nothing."""


class CallTags:
    """Stores each tag of an episode once. For one event loop."""

    def __init__(self, log: CallLog, border: Border) -> None:
        self._log, self._border = log, border
        self._known: dict[tuple[str, str], None] = {}
        """Task and tag, the earliest first."""

    async def store(self, decided: Decided) -> None:
        """Returns when the call's tags are durable; raises StoreError."""
        if not decided.arrival.tags:
            return
        tenant = decided.arrival.client.tenant
        task_id = episode_task_id(tenant, decided.placement.episode)
        new = [tag for tag in dict.fromkeys(decided.arrival.tags) if (task_id, tag) not in self._known]
        if not new:
            return
        records = [imported_tag(task_id, tag, tenant=tenant) for tag in new]
        await self._log.store_now([self._border.stored(record, tenant=tenant) for record in records])
        self._known |= dict.fromkeys((task_id, tag) for tag in new)
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
