"""Observations written by a model: what an agent otherwise only reads, as a continuation of what it did.

Nothing here knows a grammar. How an observation begins and ends is found out from the renderer that agents use:
whatever stands before and after the text in every observation. So a prediction continues exactly the tokens that
a rollout would have continued with.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Protocol

from upturn.errors import ModelError
from upturn.models.renderer import Renderer
from upturn.records import Observation

PROBES = ("moved m27 to archive", "7", "no such mail", "Berlin, 5 o'clock")
"""Texts that begin and end with different characters."""


class ObservationWriter(Protocol):
    """Between observations and the tokens that a model would write for them. Pure."""

    @property
    def beginning(self) -> tuple[int, ...]:
        """What follows an action's ids, up to where the observation's text begins."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """An observation ends after one of these; it is part of what is written."""

    def write(self, observation: Observation) -> tuple[int, ...]:
        """The ids of its text as agents read it, stop token included."""

    def read(self, token_ids: Sequence[int]) -> str | None:
        """The text of written ids; None = they do not end, or hold what belongs between texts. Never raises."""


class RenderedObservations:
    """An ObservationWriter for any renderer whose observations begin and end alike."""

    def __init__(self, renderer: Renderer) -> None:
        """Raises ModelError when the renderer's observations cannot be told apart from what surrounds them."""
        self._renderer = renderer
        rendered = [tuple(renderer.extend(Observation(text))) for text in PROBES]
        self._beginning = _common(rendered)
        inner = [each[len(self._beginning) :] for each in rendered]
        self._ending = _common([each[::-1] for each in inner])[::-1]
        bodies = [each[: len(each) - len(self._ending)] for each in inner]
        self._between = frozenset[int]()
        if not self._ending or any(self._ending[0] in body for body in bodies):
            raise ModelError(
                f"{type(renderer).__name__} ends observations with the tokens {self._ending!r}, which do not begin "
                "with one of their own: a model that writes an observation could not say where it ends. Use a "
                "renderer with such a token"
            )
        for text, body in zip(PROBES, bodies, strict=True):
            read = self.read((*body, *self.stop_ids))
            if read != text:
                raise ModelError(
                    f"{type(renderer).__name__} reads the observation {text!r} back as {read!r}: predictions could "
                    "not be compared with what came. Use a renderer whose read() gives the text of any tokens"
                )
        structure = {*self._beginning, *self._ending, *renderer.stop_ids, *renderer.open(Observation(""), "")}
        self._between = frozenset(token for token in structure if not self._is_text(token)).union(self.stop_ids)

    def _is_text(self, token: int) -> bool:
        """True for a token that texts are made of as well, such as a line break."""
        piece = self._renderer.read((token,)).text
        texts = (piece, f"x{piece}x", f"x{piece} x")
        return any(token in self.write(Observation(text))[:-1] for text in texts)

    @property
    def beginning(self) -> tuple[int, ...]:
        """What stands before the text in every observation."""
        return self._beginning

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The first token of what stands after it."""
        return self._ending[:1]

    def write(self, observation: Observation) -> tuple[int, ...]:
        """Raises ModelError for an observation that the renderer surrounds by something else."""
        rendered = tuple(self._renderer.extend(observation))
        begins, ends = len(self._beginning), len(rendered) - len(self._ending)
        if rendered[:begins] != self._beginning or rendered[ends:] != self._ending or ends < begins:
            raise ModelError(
                f"{type(self._renderer).__name__} renders the observation {observation.text[:80]!r} (code "
                f"{observation.code!r}) unlike others; it must begin with {self._beginning!r} and end with "
                f"{self._ending!r}"
            )
        return (*rendered[begins:ends], *self.stop_ids)

    def read(self, token_ids: Sequence[int]) -> str | None:
        """Without space around it."""
        if not token_ids or token_ids[-1] not in self.stop_ids:
            return None
        body = tuple(token_ids[:-1])
        return None if self._between.intersection(body) else self._renderer.read(body).text.strip()


def _common(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What all of them begin with."""
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return tuple(column[0] for column in alike)
