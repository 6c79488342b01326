"""Observations as model output, for world models: predicted after an action, as a continuation of the same tokens.

Independent of grammar and template: the start and end of an observation are derived from the agents' renderer,
where its text is between two structural tokens, which never encode text. So a prediction continues exactly the
tokens of a rollout, and ends where the next message would start.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from upturn.errors import ModelError
from upturn.models.renderer import Renderer
from upturn.records import Observation

PROBES = ("moved m27 to archive", "7", "no such mail", "Berlin, 5 o'clock")
"""Texts with different first and last characters."""


class ObservationWriter(Protocol):
    """Converts between observations and the tokens of a prediction. Pure."""

    @property
    def prefix(self) -> tuple[int, ...]:
        """The ids between an action and the observation's text in every rollout; may be empty."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """An observation ends after one of these; it is part of the prediction."""

    def write(self, observation: Observation) -> tuple[int, ...]:
        """The ids after ``prefix`` in a rollout, stop token included; raises ModelError if it cannot."""

    def read(self, token_ids: Sequence[int]) -> str | None:
        """The predicted text, as agents would read it; None = not an observation. Never raises."""


class _Parts(NamedTuple):
    """Token ids split at structural tokens."""

    segments: tuple[tuple[int, ...], ...]
    """One more than ``marks``."""
    marks: tuple[int, ...]


class RenderedObservations:
    """An ObservationWriter for any renderer whose observations are between structural tokens."""

    def __init__(self, renderer: Renderer) -> None:
        """Raises ModelError where no structural token follows an observation's text."""
        self._renderer = renderer
        candidates = {*renderer.extend(Observation("x")), *renderer.open(Observation(""), ""), *renderer.stop_ids}
        self._structure = frozenset(token for token in candidates if not self._is_text(token))
        parts = [self._parts(renderer.extend(Observation(text))) for text in PROBES]
        differing = [
            index
            for index, segments in enumerate(zip(*(part.segments for part in parts), strict=False))
            if len(set(segments)) > 1
        ]
        first = parts[0]
        if len({part.marks for part in parts}) > 1 or len(differing) != 1 or differing[0] >= len(first.marks):
            raise ModelError(
                f"{type(renderer).__name__} renders observations without a structural token after their text, so a "
                "predicted observation would have no end. Use a renderer with such a token, one that never encodes "
                "text"
            )
        self._index = differing[0]
        self._first = first
        self._head, self._tail = "", ""
        self._head, self._tail = self._frame()

    @property
    def prefix(self) -> tuple[int, ...]:
        """Up to the last structural token before the text."""
        marks = self._first.marks[: self._index]
        return tuple(
            token for segment, mark in zip(self._first.segments, marks, strict=False) for token in (*segment, mark)
        )

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The first structural token after the text."""
        return (self._first.marks[self._index],)

    def write(self, observation: Observation) -> tuple[int, ...]:
        """Raises ModelError for an observation that the renderer surrounds with other tokens."""
        parts, index = self._parts(self._renderer.extend(observation)), self._index
        if parts.marks != self._first.marks or parts.segments[:index] != self._first.segments[:index]:
            raise ModelError(
                f"{type(self._renderer).__name__} renders the observation {observation.text[:80]!r} (code "
                f"{observation.code!r}) with the structure {parts.marks!r}, others with {self._first.marks!r}"
            )
        return (*parts.segments[index], *self.stop_ids)

    def read(self, token_ids: Sequence[int]) -> str | None:
        """The text without its constant frame and surrounding whitespace."""
        if not token_ids or token_ids[-1] not in self.stop_ids or self._structure.intersection(token_ids[:-1]):
            return None
        text = self._renderer.read(token_ids[:-1]).text
        end = len(text) - len(self._tail)
        is_framed = text.startswith(self._head) and text.endswith(self._tail) and len(self._head) <= end
        return text[len(self._head) : end].strip() if is_framed else None

    def _frame(self) -> tuple[str, str]:
        """The constant text before and after an observation's text."""
        frames = set()
        for text in PROBES:
            parsed = self.read(self.write(Observation(text))) or ""
            head, middle, tail = parsed.partition(text)
            if not middle:
                raise ModelError(
                    f"{type(self._renderer).__name__} parses the observation {text!r} back as {parsed!r}, so "
                    "predictions cannot be compared with observations. Use a renderer whose read() returns the "
                    "text of any tokens"
                )
            frames.add((head, tail))
        if len(frames) > 1:
            raise ModelError(
                f"{type(self._renderer).__name__} puts different texts around observations, such as "
                f"{sorted(frames)[:2]!r}, so predictions cannot be compared with observations"
            )
        return frames.pop()

    def _is_text(self, token: int) -> bool:
        """True for a token that also encodes text, such as a line break."""
        piece = self._renderer.read((token,)).text
        texts = ("x", piece, f"x{piece}x", f"x{piece} x")
        usual, *counts = (self._renderer.extend(Observation(text)).count(token) for text in texts)
        return max(counts) > usual

    def _parts(self, token_ids: Iterable[int]) -> _Parts:
        segments: list[list[int]] = [[]]
        marks = []
        for token in token_ids:
            if token in self._structure:
                marks.append(token)
                segments.append([])
            else:
                segments[-1].append(token)
        return _Parts(tuple(map(tuple, segments)), tuple(marks))
