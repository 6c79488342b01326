"""Observations written by a model: what an agent otherwise only reads, as a continuation of what it did.

Nothing here knows a grammar or a template. Where an observation begins and ends is found out from the renderer that
agents use: its text stands between two tokens of structure, which no text is made of. So a prediction continues
exactly the tokens that a rollout would have continued with, and ends where the next message would begin.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from upturn.errors import ModelError
from upturn.models.renderer import Renderer
from upturn.records import Observation

PROBES = ("moved m27 to archive", "7", "no such mail", "Berlin, 5 o'clock")
"""Texts that begin and end with different characters."""


class ObservationWriter(Protocol):
    """Between observations and the tokens that a model would write for them. Pure."""

    @property
    def beginning(self) -> tuple[int, ...]:
        """What follows an action's ids in every rollout, up to where the observation is written; may be empty."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """An observation ends after one of these; it is part of what is written."""

    def write(self, observation: Observation) -> tuple[int, ...]:
        """The ids that follow ``beginning`` in a rollout, stop token included; raises ModelError if it cannot."""

    def read(self, token_ids: Sequence[int]) -> str | None:
        """The text in written ids, as agents read it; None = they are no observation. Never raises."""


class _Parts(NamedTuple):
    """Tokens between tokens of structure."""

    segments: tuple[tuple[int, ...], ...]
    """One more than marks."""
    marks: tuple[int, ...]


class RenderedObservations:
    """An ObservationWriter for any renderer whose observations stand between tokens of structure."""

    def __init__(self, renderer: Renderer) -> None:
        """Raises ModelError where observations cannot be told apart from what surrounds them."""
        self._renderer = renderer
        known = {*renderer.extend(Observation("x")), *renderer.open(Observation(""), ""), *renderer.stop_ids}
        self._structure = frozenset(token for token in known if not self._is_text(token))
        parts = [self._parts(renderer.extend(Observation(text))) for text in PROBES]
        differing = [
            place
            for place, found in enumerate(zip(*(each.segments for each in parts), strict=False))
            if len(set(found)) > 1
        ]
        first = parts[0]
        if len({part.marks for part in parts}) > 1 or len(differing) != 1 or differing[0] >= len(first.marks):
            raise ModelError(
                f"{type(renderer).__name__} renders observations without a token of structure behind their text: a "
                "model that writes one could not say where it ends. Use a renderer with such a token, that texts "
                "are never made of"
            )
        self._place = differing[0]
        self._first = first
        self._head, self._tail = "", ""
        self._head, self._tail = self._frame()

    @property
    def beginning(self) -> tuple[int, ...]:
        """Up to the last token of structure before the text."""
        marks = self._first.marks[: self._place]
        return tuple(
            token for segment, mark in zip(self._first.segments, marks, strict=False) for token in (*segment, mark)
        )

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The first token of structure behind it."""
        return (self._first.marks[self._place],)

    def write(self, observation: Observation) -> tuple[int, ...]:
        """Raises ModelError for an observation that the renderer surrounds by something else."""
        parts, place = self._parts(self._renderer.extend(observation)), self._place
        if parts.marks != self._first.marks or parts.segments[:place] != self._first.segments[:place]:
            raise ModelError(
                f"{type(self._renderer).__name__} renders the observation {observation.text[:80]!r} (code "
                f"{observation.code!r}) with the structure {parts.marks!r}, others with {self._first.marks!r}"
            )
        return (*parts.segments[place], *self.stop_ids)

    def read(self, token_ids: Sequence[int]) -> str | None:
        """Without what always stands around it, and without space."""
        if not token_ids or token_ids[-1] not in self.stop_ids or self._structure.intersection(token_ids[:-1]):
            return None
        text = self._renderer.read(token_ids[:-1]).text
        if len(text) < len(self._head) + len(self._tail):
            return None
        if not (text.startswith(self._head) and text.endswith(self._tail)):
            return None
        return text[len(self._head) : len(text) - len(self._tail)].strip()

    def _frame(self) -> tuple[str, str]:
        """The text that always stands around an observation's own, where it is written."""
        frames = set()
        for text in PROBES:
            written = self.read(self.write(Observation(text))) or ""
            head, found, tail = written.partition(text)
            if not found:
                raise ModelError(
                    f"{type(self._renderer).__name__} reads the observation {text!r} back as {written!r}: "
                    "predictions could not be compared with what came. Use a renderer whose read() gives the text "
                    "of any tokens"
                )
            frames.add((head, tail))
        if len(frames) > 1:
            raise ModelError(
                f"{type(self._renderer).__name__} puts different texts around observations, such as "
                f"{sorted(frames)[:2]!r}; predictions could not be compared with what came"
            )
        return frames.pop()

    def _is_text(self, token: int) -> bool:
        """True for a token that texts are made of as well, such as a line break."""
        piece = self._renderer.read((token,)).text
        usual = self._count(token, "x")
        return any(self._count(token, text) > usual for text in (piece, f"x{piece}x", f"x{piece} x"))

    def _count(self, token: int, text: str) -> int:
        return self._renderer.extend(Observation(text)).count(token)

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
