"""The borders of messages in the texts of imported conversations, after anonymising.

A turn that observed several messages has them in one text, and their lengths beside it (``Seen``). Anonymising
changes lengths, so such texts are anonymised message by message, and the lengths are counted anew.
"""

from dataclasses import replace

from upturn.pool.ingestion.formats import Seen
from upturn.pool.ingestion.transcript import is_imported
from upturn.pool.privacy import Replacer, replace_text
from upturn.records import Observation, Trajectory, Turn, fields_json, from_fields


def keep_borders(original: Trajectory, clean: Trajectory, replacer: Replacer) -> Trajectory:
    """Returns the anonymised trajectory with the lengths of the messages in its texts; ``original``: before."""
    if clean is original or not is_imported(original):
        return clean
    turns = [_turn(*pair, replacer) for pair in zip(original.turns, clean.turns, strict=True)]
    return replace(clean, turns=tuple(turns))


def _turn(original: Turn, clean: Turn, replacer: Replacer) -> Turn:
    seen = from_fields(Seen, original.message) if original.message else Seen()
    if seen.messages is None or len(seen.messages) < 2:
        return clean
    texts: list[str] = []
    position = 0
    for role, length in seen.messages:
        start = position + len(_label(role))
        texts.append(original.observation.text[start : start + length])
        position = start + length + len(_BETWEEN)
    cleaned = [replace_text(text, replacer) for text in texts]
    roles = [role for role, _ in seen.messages]
    pairs = list(zip(roles, cleaned, strict=True))
    text = _BETWEEN.join(f"{_label(role)}{words}" for role, words in pairs)
    borders = tuple((role, len(words)) for role, words in pairs)
    message = fields_json(replace(from_fields(Seen, clean.message), messages=borders))
    return replace(clean, observation=Observation(text, clean.observation.code), message=message)


_BETWEEN = "\n\n"


def _label(role: str) -> str:
    return f"[{role}]\n"
