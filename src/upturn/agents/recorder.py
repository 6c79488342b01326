"""Binds a model to one rollout: derives each call's seed, records each call, and builds the training rows.

A call whose prompt starts with all tokens of an earlier row extends that row; otherwise it starts a new row with
the cause. Sampled tokens are recorded as sampled, never retokenised from text.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from upturn.agents.agent import Reply
from upturn.config import SamplingSettings
from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest, Model
from upturn.records import TokenRow, Trajectory, WrittenSpan


class LimitReachedError(Exception):
    """No tokens are left for the call: the rollout ends with ``token_limit``. Not a failure of the model."""


def derived_seed(*parts: str | int) -> int:
    """A seed in [0, 2**63) that depends on all parts and on their order, the same on every machine."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def fork_counts(trajectories: Iterable[Trajectory]) -> Counter[str]:
    """Number of rows started because a prompt did not extend the tokens before it, by cause."""
    return Counter(
        row.fork_cause for trajectory in trajectories for row in trajectory.rows if row.fork_cause is not None
    )


class CallCounts(NamedTuple):
    """Counts over trajectories."""

    refused: int
    """Turns without an action: the text was no call, or was refused."""
    repaired: int
    """Turns whose call was written almost right."""
    dropped: int
    """Calls that were not made because the trajectory ended with an earlier one of their message."""


def call_counts(trajectories: Iterable[Trajectory]) -> CallCounts:
    """Returns how well the trajectories' calls were written."""
    refused = repaired = dropped = 0
    for trajectory in trajectories:
        refused += sum(turn.action is None for turn in trajectory.turns)
        repaired += sum(bool(turn.repairs) for turn in trajectory.turns)
        dropped += trajectory.dropped_calls
    return CallCounts(refused, repaired, dropped)


@dataclass
class _Row:
    tokens: tuple[int, ...]
    fork_cause: str | None
    spans: list[WrittenSpan] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampling_logprobs: list[float] = field(default_factory=list)

    def discard(self, turn: int) -> None:
        """Removes the spans of a turn; their tokens stay as context."""
        kept = [index for index, span in enumerate(self.spans) if span.turn != turn]
        if len(kept) == len(self.spans):
            return
        starts = [0, *accumulate(span.stop - span.start for span in self.spans)]
        places = [place for index in kept for place in range(starts[index], starts[index + 1])]
        self.spans = [self.spans[index] for index in kept]
        self.logprobs = [self.logprobs[place] for place in places] if self.logprobs else []
        self.sampling_logprobs = (
            [self.sampling_logprobs[place] for place in places] if self.sampling_logprobs else []
        )

    def record(self, turns: int) -> TokenRow:
        """The row with the spans of the first ``turns`` turns."""
        spans = tuple(span for span in self.spans if span.turn < turns)
        written = sum(span.stop - span.start for span in spans)
        return TokenRow(
            self.tokens,
            spans,
            tuple(self.logprobs[:written]),
            self.fork_cause,
            tuple(self.sampling_logprobs[:written]),
        )


def recorded_row(row: TokenRow) -> _Row:
    """The row as it was while it was recorded."""
    return _Row(row.token_ids, row.fork_cause, list(row.spans), list(row.logprobs), list(row.sampling_logprobs))


@dataclass
class Recorder:
    """A ModelSession for one rollout; single use."""

    model: Model | None
    """None = the agent has no local model; a call raises ModelError."""
    request: GenerationRequest
    """Temperature, sampling options, session, order and seed of all calls; its prompt and stop ids are ignored. A
    call's seed derives from this seed and the call's index."""
    max_tokens: int | None = None
    """Limit of prompt and output together; None = unlimited."""
    turn: int = 0
    """Index of the turn that the next tokens are written in."""
    model_version: str = ""
    history: tuple[int, ...] = ()
    calls: int = 0
    """Number of calls so far."""
    next_turn: Callable[[], int] | None = None
    """Called with each output: the index of the turn that it is written in. None = ``start_turn`` says it."""
    _rows: list[_Row] = field(default_factory=list)
    _pending: list[Reply] = field(default_factory=list)
    _latest: _Row | None = None
    """The row of the latest call."""
    _output_start: int = 0
    """Where the latest call's output begins in it."""
    _forms: list[tuple[float, SamplingSettings]] = field(default_factory=list)
    """Temperature and options of the calls so far, without stop strings, which do not change the distribution."""

    def start_turn(self, turn: int) -> None:
        """The next tokens are written in the turn with this index."""
        self.turn = turn

    def resume(self, rows: Iterable[TokenRow], history: tuple[int, ...], pending: Sequence[Reply] = ()) -> None:
        """Takes rows, history and pending replies of another rollout as context; call it before ``generate``."""
        self._rows = [_Row(row.token_ids, row.fork_cause) for row in rows]
        self.history = history
        self._pending = list(pending)

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop_ids: tuple[int, ...],
        fork_cause: str | None = None,
    ) -> Generation:
        """The model's continuation, recorded; raises LimitReachedError when the context has no room for a token."""
        prompt = tuple(prompt_ids)
        return await self._send(self.request, fork_cause, prompt=prompt, max_tokens=max_tokens, stop_ids=stop_ids)

    async def call(self, request: GenerationRequest, fork_cause: str | None) -> Generation:
        """As ``generate``, for a request without its seed."""
        return await self._send(
            request,
            fork_cause,
            prompt=request.prompt_ids,
            max_tokens=request.max_tokens,
            stop_ids=request.stop_ids,
        )

    async def _send(
        self,
        request: GenerationRequest,
        fork_cause: str | None,
        *,
        prompt: tuple[int, ...],
        max_tokens: int,
        stop_ids: tuple[int, ...],
    ) -> Generation:
        """``request`` with the other arguments in place of its fields: one copy, since every turn makes one."""
        if self.model is None:
            raise ModelError("this agent calls a model, but its rollout has none; pass a model in the setting")
        room = max_tokens if self.max_tokens is None else min(max_tokens, self.max_tokens - len(prompt))
        if room <= 0:
            raise LimitReachedError
        seed = derived_seed(self.request.seed, self.calls)
        self.calls += 1
        options = request.sampling
        form = (request.temperature, replace(options, stop=()) if options.stop else options)
        if form not in self._forms:
            self._forms.append(form)
        generation = await self.model.generate(
            replace(request, prompt_ids=prompt, max_tokens=room, stop_ids=stop_ids, seed=seed)
        )
        if self.model_version not in {"", generation.model_version}:
            raise ModelError(
                f"the model changed from {self.model_version!r} to {generation.model_version!r} within one "
                "rollout; update weights only while no rollout runs"
            )
        if generation.token_ids or generation.finish_reason != "interrupted":
            self.model_version = generation.model_version
        if generation.token_ids:
            self._output_start = len(prompt) - request.drawn
            self._record(prompt, generation, fork_cause)
        elif generation.finish_reason != "interrupted":
            raise LimitReachedError
        return generation

    def divide(self, replies: Sequence[Reply], stops: Sequence[int]) -> None:
        """Divides the latest output among as many turns as there are replies, from the current one on.

        ``stops``: ascending ends within the output's tokens, the last one its length. All replies but the first are
        pending. Raises ValueError for other stops.
        """
        assert self._latest is not None  # there is an output
        spans, start = self._latest.spans, self._output_start
        length, bounds = len(self._latest.tokens) - start, (0, *stops)
        if len(stops) != len(replies) or stops[-1] != length or sorted(set(bounds)) != list(bounds):
            raise ValueError(f"{len(replies)} replies need ascending stops up to {length}, got {stops!r}")
        self._latest.spans = [span for span in spans if span.stop <= start] + [
            replace(
                span, turn=self.turn + index, start=max(span.start, start + low), stop=min(span.stop, start + high)
            )
            for index, (low, high) in enumerate(pairwise(bounds))
            for span in spans  # several where newer weights continued the output
            if span.start < start + high and start + low < span.stop
        ]
        self._pending = list(replies[1:])

    def defer(self, replies: Sequence[Reply]) -> None:
        """The replies are pending: the further calls of a message whose tokens are not known."""
        self._pending = list(replies)

    def pending(self) -> Reply | None:
        """The next pending reply, which is then taken; None = there is none."""
        return self._pending.pop(0) if self._pending else None

    @property
    def dropped_calls(self) -> int:
        """Calls of the latest output that were not made, because the rollout ended."""
        return len(self._pending)

    def rows(self, turns: int) -> tuple[TokenRow, ...]:
        """The rows with sampled tokens. Tokens of an incomplete turn (index ``turns`` or later), and those before a
        branch point, are not trained on.
        """
        return tuple(row.record(turns) for row in self._rows if row.spans)

    @property
    def temperature(self) -> float | None:
        """The temperature of all calls; None = they were sampled in several ways."""
        return self.request.temperature if not self._forms else self._only_form()[0]

    @property
    def sampling(self) -> SamplingSettings:
        """The options of all calls besides the temperature; those of the request where they differ."""
        form = self._only_form()[1]
        return self.request.sampling if form is None else replace(form, stop=self.request.sampling.stop)

    def _only_form(self) -> tuple[float | None, SamplingSettings | None]:
        return self._forms[0] if len(self._forms) == 1 else (None, None)

    def discard(self, turn: int) -> None:
        """The turn's tokens are not trained on: they are no part of what the agent did."""
        for row in self._rows:
            row.discard(turn)

    @property
    def version(self) -> str:
        """Hash of the weights that wrote the latest token; empty = there is none."""
        return self.model_version

    @property
    def written_tokens(self) -> int:
        """Output tokens of all calls."""
        return sum(span.stop - span.start for row in self._rows for span in row.spans)

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens, each counted once per row."""
        return sum(len(row.tokens) for row in self._rows if row.spans) - self.written_tokens

    def _record(self, prompt: tuple[int, ...], generation: Generation, fork_cause: str | None) -> None:
        row = self._row_of(prompt, fork_cause)
        if self.next_turn is not None:
            self.turn = self.next_turn()
        row.tokens = prompt + generation.token_ids
        row.spans.append(WrittenSpan(self.turn, len(prompt), len(row.tokens)))
        if generation.sampling_logprobs and not row.sampling_logprobs:
            row.sampling_logprobs = list(row.logprobs)  # of earlier calls at temperature 1
        row.logprobs.extend(generation.logprobs)
        row.sampling_logprobs.extend(
            generation.sampling_logprobs or (generation.logprobs if row.sampling_logprobs else ())
        )
        self.history = row.tokens
        self._latest = row

    def _row_of(self, prompt: tuple[int, ...], fork_cause: str | None) -> _Row:
        """The longest row that the prompt extends, or a new one."""
        extended = [row for row in self._rows if prompt[: len(row.tokens)] == row.tokens]
        if extended:
            return max(extended, key=lambda row: len(row.tokens))
        if not self._rows:
            fork_cause = None
        elif fork_cause is None:
            is_shorter = self.history[: len(prompt)] == prompt
            fork_cause = "history_shortened" if is_shorter else "history_changed"
        self._rows.append(_Row(prompt, fork_cause))
        return self._rows[-1]
