"""Behaviours of servers that do something wrong before or within an answer of chat completions."""

from tests.models.upstreams.raw_server import CHAT_END, SSE_HEAD, Hangup, Visit, chat_chunk


async def silent(visit: Visit) -> None:
    await visit.departure()


async def silent_after_head(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(b": waiting\n\n")
    await visit.departure()


async def hangs_up(_visit: Visit) -> None:
    raise Hangup


async def garbage(visit: Visit) -> None:
    await visit.send(b"\x16\x03\x01\x02\x00garbage\r\n\r\n")
    raise Hangup


async def bad_length(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n")
    raise Hangup


async def short_body(visit: Visit) -> None:
    await visit.send(b'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"id": ')
    raise Hangup


async def not_json(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>")


async def error_first(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(b": waiting\n\n")
    await visit.part(b'data: {"error": {"message": "no GPU left"}}\n\n')
    await visit.departure()


async def empty_stream(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(b"")


async def dies_midway(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel") + b"data: {")
    raise Hangup


async def hangs_midway(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel"))
    await visit.departure()


async def ends_midway(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel"))
    await visit.part(b"")


async def garbage_midway(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel") + b"data: garbage\n\n" + CHAT_END)
    await visit.part(b"")


async def garbage_at_the_end(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel") + b"data: garb")
    await visit.part(b"")


async def error_midway(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel") + b'data: {"error": {"message": "no GPU left"}}\n\n')
    await visit.part(b"")


async def done_midway(visit: Visit) -> None:
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("Hel") + b"data: [DONE]\n\n")
    await visit.part(b"")


async def error_without_head(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\n\r\n" + chat_chunk("Hel"))
    raise Hangup
