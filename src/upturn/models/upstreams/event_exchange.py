"""An answer that is written here, event by event, in the client's dialect: whole or streamed."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from time import perf_counter

from upturn.dialects import StreamEvent, StreamFailure
from upturn.errors import ModelError
from upturn.models.upstreams.transcript import Transcript
from upturn.models.upstreams.upstream import CallOutcome, Chunk, Drawn, UpstreamCall, UpstreamError
from upturn.records import TokenRow


class EventExchange:
    """The exchange of events that come one by one. They may raise ModelError."""

    def __init__(
        self,
        call: UpstreamCall,
        events: AsyncIterator[StreamEvent],
        tokens: Callable[[], tuple[TokenRow, Drawn] | None] = lambda: None,
    ) -> None:
        """``tokens``: of prompt and answer, as far as they are known, and how they were drawn."""
        self._call = call
        self._tokens = tokens
        self._events = events
        self._transcript = Transcript()
        self._first: list[StreamEvent] = []
        self._started = perf_counter()
        self._first_seconds: float | None = None

    async def begin(self) -> None:
        """Waits for the first token of a stream, or a whole answer; raises UpstreamError if there is none."""
        is_streamed = self._call.request.is_streamed
        try:
            while not (self._transcript.has_begun if is_streamed else self._transcript.is_over):
                event = await anext(self._events)
                self._transcript.add(event)
                self._first.append(event)
        except UpstreamError:
            raise
        except ModelError as exc:
            raise UpstreamError(str(exc), kind="protocol") from exc
        self._first_seconds = perf_counter() - self._started

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The answer, or a stream with its events."""
        request, dialect = self._call.request, self._call.dialect
        if not request.is_streamed:
            answer = self.outcome.answer
            assert answer is not None, "begin comes first"
            body = json.dumps(dialect.write_answer(answer, request), ensure_ascii=False)
            yield Chunk(body.encode("utf-8", "replace"), is_end=True)
            return
        writer = dialect.writer(request)
        begun = self._first[:-1] if self._transcript.is_over else self._first
        yield Chunk(b"".join(writer.write(event) for event in begun), is_end=False)
        if self._transcript.is_over:
            yield Chunk(writer.write(self._first[-1]), is_end=True)
        while not self._transcript.is_over:
            try:
                event = await anext(self._events)
            except ModelError as exc:
                event = StreamFailure(str(exc))
            self._transcript.add(event)
            yield Chunk(writer.write(event), is_end=self._transcript.is_over)

    @property
    def outcome(self) -> CallOutcome:
        """What has come so far."""
        answer = self._transcript.answer()
        if answer is not None and self._call.answer_id:
            answer = replace(answer, id=self._call.answer_id)
        tokens, drawn = self._tokens() or (None, None)
        usage = self._transcript.usage
        return CallOutcome(answer, self._transcript.failure, usage, self._first_seconds, tokens=tokens, drawn=drawn)
