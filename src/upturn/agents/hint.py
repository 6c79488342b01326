"""Hints: removes extra help in a task's prompt from a trajectory before it is trained on.

The tokens of a hinted trajectory were sampled after the hint and are trained as if they followed the plain task.
Such a row is not a sample of the policy, so it counts as rendered.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from upturn.errors import TrainingError
from upturn.records import Observation, TokenRow, Trajectory, WrittenSpan, record


@record
class Hint:
    """The hint in a prompt, and the prompt without it."""

    text: str
    """The added text, including the words that introduce an answer: the answer alone may occur in the task or in
    correct output. Empty = only tokens were added."""
    observation: Observation
    """The task's first observation, without the hint."""
    hinted_ids: tuple[int, ...]
    """All tokens of the first prompt, with the hint."""
    plain_ids: tuple[int, ...]
    """The same without the hint."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens of ``hinted_ids`` between the prefix and the suffix it has in common with ``plain_ids``."""
        hinted, plain = self.hinted_ids, self.plain_ids
        start = _common_length(hinted, plain)
        end = min(_common_length(hinted[::-1], plain[::-1]), len(hinted) - start, len(plain) - start)
        return hinted[start : len(hinted) - end]


def without_hint(trajectory: Trajectory, hint: Hint) -> Trajectory:
    """The trajectory with the plain prompt in place of the hinted one; sampled tokens are unchanged.

    It counts as rendered, has no log-probs and a new id. Raises TrainingError where a row does not start with the
    hinted prompt, so that the hint could be anywhere in it.
    """
    if not hint.token_ids:
        raise TrainingError(
            f"trajectory {trajectory.id!r} has a hint without tokens: its hinted prompt adds nothing to "
            "the plain one"
        )
    first = tuple(replace(turn, observation=hint.observation) for turn in trajectory.turns[:1])
    return replace(
        trajectory,
        id=f"{trajectory.id}/without-hint",
        turns=first + trajectory.turns[1:],
        origin="rendered",
        rows=tuple(_remove_from_row(trajectory.id, row, hint) for row in trajectory.rows),
        temperature=None,
        model_version="",
    )


def repeats_hint(trajectory: Trajectory, hint: Hint, mentions: tuple[str, ...] = ()) -> bool:
    """True when the model's text repeats the hint, or contains one of the words ``mentions``.

    ``trajectory``: the result of ``without_hint``. Compares whole words, ignoring case and spacing. Raises
    TrainingError where an observation contains the hint: such a row would train on the answer.
    """
    written = " ".join(_normalise(turn.text) for turn in trajectory.turns)
    words = _normalise(hint.text)
    if (words and words in written) or any(_has_word(written, word) for word in mentions):
        return True
    matches = [(row, start) for row in trajectory.rows for start in _matches(row.token_ids, hint.token_ids)]
    size = len(hint.token_ids)
    if any(span.start < start + size and start < span.stop for row, start in matches for span in row.spans):
        return True
    if matches or (words and any(words in _normalise(turn.observation.text) for turn in trajectory.turns)):
        leak = f"tokens {list(hint.token_ids)!r}" if matches else f"words {hint.text!r}"
        raise TrainingError(
            f"the hint leaks: trajectory {trajectory.id!r} still reads its {leak} after the hint was removed from "
            "the prompt. Keep the hint out of the task and of the environment's observations, and start it with "
            "words that occur nowhere else"
        )
    return False


def _remove_from_row(trajectory_id: str, row: TokenRow, hint: Hint) -> TokenRow:
    opening, shift = len(hint.hinted_ids), len(hint.plain_ids) - len(hint.hinted_ids)
    if row.token_ids[:opening] != hint.hinted_ids or any(span.start < opening for span in row.spans):
        raise TrainingError(
            f"trajectory {trajectory_id!r} has a row that does not start with the hinted prompt, so the hint "
            "cannot be removed; use an agent whose context only grows"
        )
    spans = tuple(WrittenSpan(span.turn, span.start + shift, span.stop + shift) for span in row.spans)
    return TokenRow(hint.plain_ids + row.token_ids[opening:], spans, (), row.fork_cause)


def _common_length(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))


def _matches(tokens: tuple[int, ...], pattern: tuple[int, ...]) -> Iterator[int]:
    size = len(pattern)
    return (start for start in range(len(tokens) - size + 1) if tokens[start : start + size] == pattern)


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split())


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_normalise(word))}(?!\w)", text) is not None
