"""What is kept of answers for retries."""

import asyncio

from upturn.gateway.retries import RecentAnswers
from upturn.loop.online import Client

MARKED = {"x-stainless-retry-count": "0"}
RETRY = {"x-stainless-retry-count": "1"}


def answer(recent: RecentAnswers, key: bytes, content: bytes) -> None:
    with recent.recording(key) as recording:
        recording.start({}, is_streamed=False).add(content)
        recording.finish()


async def test_an_equal_body_again_replaces_what_was_kept() -> None:
    recent = RecentAnswers()
    key = recent.key(Client("default"), "chat", b"{}", MARKED)
    for number in range(10):
        answer(recent, key, b"%d" % number * 1_000)
    assert recent._bytes == 1_000
    earlier = await recent.earlier(key, RETRY)
    assert earlier is not None
    assert earlier.content == b"9" * 1_000


async def test_a_replaced_answer_that_ends_later_is_not_counted() -> None:
    recent = RecentAnswers()
    key = recent.key(Client("default"), "chat", b"{}", MARKED)
    ended = asyncio.Event()

    async def slow() -> None:
        with recent.recording(key) as recording:
            recording.start({}, is_streamed=False).add(b"slow")
            await ended.wait()
            recording.finish()

    running = asyncio.ensure_future(slow())
    await asyncio.sleep(0)
    answer(recent, key, b"fast!")
    ended.set()
    await running
    assert recent._bytes == 5
    earlier = await recent.earlier(key, RETRY)
    assert earlier is not None
    assert earlier.content == b"fast!"
