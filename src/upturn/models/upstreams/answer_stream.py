"""Reading an upstream's stream for a client: passed through event by event, or translated.

An event is passed through as its bytes, except: the upstream's id of the answer becomes ours; what only we asked
for is left out. The events that end an answer are held back until all of them have come, so that the caller can
store the call before it sends them.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from upturn.dialects import Dialect, EventReader, EventWriter, StreamEvent, StreamFailure, StreamStart
from upturn.errors import ModelError
from upturn.models.upstreams.token_capture import TokenCapture
from upturn.models.upstreams.transcript import Transcript
from upturn.models.upstreams.upstream import Chunk, UpstreamCall

_ENDS: Mapping[str, re.Pattern[bytes]] = {
    "chat": re.compile(rb'"finish_reason"\s*:\s*"'),
    "responses": re.compile(rb"\"type\"\s*:\s*\"response\.(completed|failed|incomplete)\""),
    "messages": re.compile(rb"\"type\"\s*:\s*\"message_(delta|stop)\""),
}
"""What is in the first event of an answer's end, by dialect."""
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")
LARGEST_EVENT = 8 << 20


class AnswerStream:
    """Turns the bytes of an upstream's stream into chunks for the client, and collects the answer."""

    def __init__(
        self,
        call: UpstreamCall,
        dialect: Dialect,
        capture: TokenCapture,
        conceal: Callable[[bytes], bytes] = lambda content: content,
    ) -> None:
        """``dialect``: of the upstream. ``capture``: sees every event first. ``conceal``: takes what clients are
        not told out of the end of an answer that failed."""
        self._conceal = conceal
        self.transcript = Transcript()
        self._answer_id = call.answer_id
        self._reader: EventReader = dialect.reader()
        self._writer: EventWriter = call.dialect.writer(call.request)
        self._passes = call.dialect.name == dialect.name
        self._is_chat = dialect.name == "chat"
        self._end = _ENDS[dialect.name]
        self.capture = capture
        self._strips_usage = self._passes and not call.request.has_stream_usage
        self._rest = b""
        self._searched = 0
        """Bytes of the rest that hold no boundary."""
        self._held: list[bytes] = []
        self._is_ending = False
        self._replacements: list[tuple[bytes, bytes]] = []

    @property
    def is_over(self) -> bool:
        """Whether the answer has ended."""
        return self.transcript.is_over

    def feed(self, content: bytes) -> Iterator[Chunk]:
        """The chunks that these bytes complete. Raises ModelError for what is not a stream of the dialect."""
        sent: list[bytes] = []
        try:
            for event in self._split(content):
                if self.is_over:
                    break
                sent += self._event(event)
        except ModelError:
            if sent:
                yield Chunk(b"".join(sent), is_end=False)
            raise
        if sent:
            yield Chunk(b"".join(sent), is_end=False)
        if self.is_over:
            yield self._last()

    def _split(self, content: bytes) -> list[bytes]:
        """The events that these bytes complete, with the blank lines that end them."""
        self._rest += content
        events, start = [], 0
        for boundary in _BOUNDARY.finditer(self._rest, self._searched):
            events.append(self._rest[start : boundary.end()])
            start = boundary.end()
        self._rest = self._rest[start:]
        self._searched = max(0, len(self._rest) - 3)  # a boundary may be cut after three of its four bytes
        if len(self._rest) > LARGEST_EVENT:
            raise ModelError(f"a stream has an event of more than {LARGEST_EVENT:,} bytes")
        return events

    def fail(self, message: str) -> Chunk:
        """The chunk that ends an answer which broke off."""
        if self.is_over:
            return self._last()
        failure = StreamFailure(message)
        self.transcript.add(failure)
        self._held = [self._failed(failure)]
        return self._last()

    def end(self) -> Chunk:
        """The last chunk, when the upstream has closed its stream. Raises ModelError as ``feed`` does."""
        if self._rest.strip() and not self.is_over:
            self._held += self._event(self._rest + b"\n\n")
        if not self.is_over:
            events = list(self._reader.end())
            for event in events:
                self.transcript.add(event)
            if not self._passes:
                self._held += [self._translated(event) for event in events]
            else:
                self._held += [self._failed(event) for event in events if isinstance(event, StreamFailure)]
        return self._last()

    def _failed(self, failure: StreamFailure) -> bytes:
        """The failure as the client's writer writes it after the events that the client has."""
        if self._passes and self.transcript.id:
            self._writer.write(StreamStart(self._answer_id or self.transcript.id, self.transcript.model))
        return self._writer.write(_with_cure(failure))

    def _last(self) -> Chunk:
        content, self._held = b"".join(self._held), []
        return Chunk(self._conceal(content) if self.transcript.failure else content, is_end=True)

    def _event(self, raw: bytes) -> list[bytes]:
        """What to send for one event now; the end of the answer is held back."""
        raw = self.capture.event(raw)
        # the reader would wait whether a line feed follows the last carriage return
        events = list(self._reader.feed(raw + b"\n" if raw.endswith(b"\r") else raw))
        for event in events:
            self.transcript.add(event)
        if not self._passes:
            sent = [self._translated(event) for event in events]
        elif self.transcript.failure and self._is_chat:
            # the server's error may lack a code, and it calls an answer without a finish reason complete
            sent = [self._failed(event) for event in events if isinstance(event, StreamFailure)]
        else:
            sent = self._passed(raw)
            self._is_ending = self._is_ending or self._end.search(raw) is not None
        self._is_ending = self._is_ending or self.transcript.is_over
        if self._is_ending:
            self._held += sent
            return []
        return sent

    def _passed(self, raw: bytes) -> list[bytes]:
        if self._answer_id and not self._replacements and self.transcript.id:
            theirs, ours = self.transcript.id.encode(), self._answer_id.encode()
            self._replacements = [
                (b'"id":"' + theirs + b'"', b'"id":"' + ours + b'"'),
                (b'"id": "' + theirs + b'"', b'"id": "' + ours + b'"'),
            ]
        if self._strips_usage and b'"usage"' in raw and _NO_CHOICES.search(raw) and _USAGE.search(raw):
            return []
        for theirs, ours in self._replacements:
            raw = raw.replace(theirs, ours)
        return [raw]

    def _translated(self, event: StreamEvent) -> bytes:
        if isinstance(event, StreamStart) and self._answer_id:
            event = StreamStart(self._answer_id, event.model, event.usage)
        return self._writer.write(_with_cure(event) if isinstance(event, StreamFailure) else event)


def _with_cure(failure: StreamFailure) -> StreamFailure:
    return StreamFailure(f"{failure.message}; send the request again", failure.code)
