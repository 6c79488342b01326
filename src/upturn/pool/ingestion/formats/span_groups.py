"""Spans of a stream, grouped by trace within a bound of memory."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import count

from upturn.pool.ingestion.formats.conversation import Defaults, Line, LineError, Lines
from upturn.pool.ingestion.formats.recorded import conversation_of
from upturn.pool.ingestion.formats.span import Span, conversations_in

OPEN_SPANS = 20_000
"""Spans that wait for others of their trace. Beyond it, the trace that has waited longest is read as it is."""


def span_lines(spans: Iterable[Span | Line], defaults: Defaults) -> Lines:
    """Yields the conversations of each trace, and the lines that are no spans, numbered in their order."""
    numbers = count(1)
    for found in _grouped(spans):
        if isinstance(found, Line):
            yield found._replace(number=next(numbers))
            continue
        for recorded in conversations_in(found):
            number = next(numbers)
            if isinstance(recorded, LineError):
                yield Line(number, recorded)
                continue
            try:
                yield Line(number, conversation_of(recorded, defaults, "traces"))
            except LineError as exc:
                yield Line(number, LineError(f"trace {found[0].trace_id}: {exc}"))


def _grouped(spans: Iterable[Span | Line]) -> Iterator[list[Span] | Line]:
    waiting: OrderedDict[str, list[Span]] = OrderedDict()
    total = 0
    for span in spans:
        if isinstance(span, Line):
            yield span
            continue
        waiting.setdefault(span.trace_id, []).append(span)
        waiting.move_to_end(span.trace_id)
        total += 1
        while total > OPEN_SPANS:
            _, group = waiting.popitem(last=False)
            total -= len(group)
            yield group
    yield from waiting.values()
