"""A difference between what the pool wrote and what it holds now."""

from typing import NamedTuple


class Problem(NamedTuple):
    """A record, entry or node that was changed, added, deleted or moved by something else than the pool."""

    kind: str
    """Name of the table."""
    record_id: str
    """Empty = the problem is not one of a single row."""
    what: str
    """Follows the record's name in a sentence."""
    position: int | None = None
    """Of its entry in the audit log; None = there is none."""

    def __str__(self) -> str:
        """Returns a sentence that names the record and its entry."""
        named = f"{self.kind} {self.record_id!r}" if self.record_id else self.kind
        entry = "" if self.position is None else f" (entry {self.position})"
        return f"{named} {self.what}{entry}"
