"""Tokens of calls and of their episodes' trajectories, which hold more words than the records that they belong to.

The tokens of a call are those of its whole prompt: of the messages of earlier calls and of the tools, too. So once
something was replaced in an episode, none of its later records keeps tokens.
"""

from dataclasses import replace
from typing import Any, TypeVar, cast

from upturn.records import Call, CallContent, Trajectory, episode_task_id

RecordT = TypeVar("RecordT")


class MarkedEpisodes:
    """Follows the records of one export in the order of their arrival; single use."""

    def __init__(self) -> None:
        self._awaited: dict[str, Call] = {}
        """Calls by id whose contents have not come; those of old calls are deleted."""
        self._marked: set[str] = set()
        """Ids of the tasks of episodes in which something was replaced, or whose words are not known."""

    def without_tokens(self, original: RecordT, clean: RecordT) -> RecordT:
        """Returns the anonymised record without tokens that may hold what was replaced elsewhere.

        ``original``: before; the same object where nothing was replaced."""
        record: Any = clean
        if isinstance(record, Call):
            self._awaited[record.id] = record
            if record.extends in self._awaited:
                self._mark(record)
        elif isinstance(record, CallContent):
            call = self._awaited.pop(record.id, None)
            if call is not None and clean is not original:
                self._mark(call)
            is_marked = call is None or episode_task_id(call.tenant, call.episode) in self._marked
            record = replace(record, tokens="") if is_marked and record.tokens else record
        elif isinstance(record, Trajectory) and record.rows and record.task_id in self._marked:
            record = replace(record, rows=())
        return cast(RecordT, record)

    def _mark(self, call: Call) -> None:
        self._marked.add(episode_task_id(call.tenant, call.episode))
