"""Records and rows without a subject."""

from typing import TypeVar

from pydantic_core import from_json, to_json

from upturn.errors import RecordError, StoreError
from upturn.pool.erasure.subject import MASK, Subject
from upturn.pool.privacy import Replacement
from upturn.pool.row import PoolRecord
from upturn.records import fields_json, from_fields

RecordT = TypeVar("RecordT", bound=PoolRecord)

_KEPT = frozenset(
    {"id", "tenant", "task_id", "trajectory_id", "subject_id", "refers_to", "extends", "agent_version"}
)
"""References between records: replacing them would lose what belongs together."""


def replacement_of(subject: Subject) -> Replacement:
    """Returns the replacement of the subject by the mask in texts, names of fields and numbers."""
    return Replacement(lambda text, _name: subject(text), lambda _kind, _text: MASK, lambda _kind, _text: MASK)


def without_subject(record: RecordT, subject: Subject) -> RecordT:
    """Returns the record with the subject replaced by the mask, except in ids.

    Raises StoreError for a record that cannot do without it.
    """
    replacement = replacement_of(subject)
    fields = from_json(fields_json(record))
    clean = {name: value if name in _KEPT else replacement.json(value, name) for name, value in fields.items()}
    try:
        return from_fields(type(record), to_json(clean))
    except RecordError as exc:
        raise StoreError(
            f"the subject cannot be erased from {type(record).__name__} {record.id!r}: {exc}; nothing is erased; "
            "name the subject by a longer value"
        ) from exc
