"""Whether token rows say what the turns say: the written tokens, read with the version's tokenizer, are the text.

Whoever has the tokenizers hands in a ``ReaderOf``; the pool has none. Rows of versions without a reader are not
checked, and counted by the reason.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from upturn.records import Trajectory, WrittenSpan

TextReader: TypeAlias = Callable[[Sequence[int]], str]
"""Returns the text of a model's output, as its renderer reads it."""
ReaderOf: TypeAlias = Callable[[str], TextReader | str]
"""Returns the reader of an agent version's id, or why there is none."""


def no_tokenizers(_: str) -> str:
    """The ``ReaderOf`` of who has no tokenizers, such as a gateway that serves no model of its own."""
    return "no tokenizer was given"


def disagreement(trajectory: Trajectory, read: TextReader) -> str:
    """Returns the first output whose tokens read otherwise than its turn; empty = all agree."""
    for index, row in enumerate(trajectory.rows):
        for spans in _messages(trajectory, row.spans):
            turn = trajectory.turns[spans[0].turn]
            written = [token for span in spans for token in row.token_ids[span.start : span.stop]]
            said = "".join(trajectory.turns[span.turn].text for span in spans)
            text = read(written)
            # Between several calls of a message a template may have blanks that belong to no call.
            is_equal = text == turn.text if len(spans) == 1 else "".join(text.split()) == "".join(said.split())
            if not is_equal:
                return f"row {index}, turn {spans[0].turn}: the tokens are {text[:60]!r}, the text is {said[:60]!r}"
    return ""


def _messages(trajectory: Trajectory, spans: Sequence[WrittenSpan]) -> list[list[WrittenSpan]]:
    """The spans of each output; those of turns that do not exist are left to the gate ``tokens``."""
    messages: list[list[WrittenSpan]] = []
    for span in spans:
        if not 0 <= span.turn < len(trajectory.turns):
            continue
        if trajectory.turns[span.turn].call and messages and messages[-1][-1].stop == span.start:
            messages[-1].append(span)
        else:
            messages.append([span])
    return messages
