"""Server-sent events, as the WHATWG specification's examples have them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.dialects import EventParser, ServerEvent, write_event
from upturn.dialects.sse import MAX_EVENT_BYTES
from upturn.errors import ModelError

STREAM = (
    b": a comment\n\nevent: add\ndata: 73857293\nid: 1\n\ndata:first\r\ndata: second\r\n\r\ndata\r\rretry: 10\n\n"
)
EVENTS = [ServerEvent("add", "73857293"), ServerEvent("", "first\nsecond"), ServerEvent("", "")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=5))
def test_bytes_may_be_cut_anywhere(cuts: list[int]) -> None:
    parser, edges = EventParser(), [0, *sorted(cuts), len(STREAM)]
    events: list[ServerEvent] = []
    for start, stop in pairwise(edges):
        events += parser.feed(STREAM[start:stop])
    assert events == EVENTS


def test_an_unfinished_event_is_not_delivered() -> None:
    assert list(EventParser().feed(b"data: half")) == []


def test_an_endless_event_is_refused() -> None:
    parser = EventParser()
    with pytest.raises(ModelError, match="more than 8,388,608 bytes"):
        for _ in range(MAX_EVENT_BYTES // 65_536 + 1):
            list(parser.feed(b"x" * 65_536))


def test_writing_and_parsing_gives_the_event() -> None:
    written = write_event({"text": "Köln\n"}, "delta")
    assert written == 'event: delta\ndata: {"text":"Köln\\n"}\n\n'.encode()
    assert list(EventParser().feed(written)) == [ServerEvent("delta", '{"text":"Köln\\n"}')]
