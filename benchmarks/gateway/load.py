"""Load on a chat endpoint: as many requests as ``connections`` allow, or a fixed rate; answers are checked.

``python -m benchmarks.gateway.load URL MODEL CONNECTIONS REQUESTS [--rate R] [--stream] [--key K]`` prints one JSON
object with requests per second, latencies and the numbers of answers by status.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit


@dataclass
class Tally:
    """What came of the requests."""

    seconds: list[float] = field(default_factory=list)
    """Latency of answers with status 200, to the last byte."""
    first_byte: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)
    """Ids of complete answers."""
    trace: list[tuple[float, str, float]] = field(default_factory=list)
    """When each answer was due, by ``perf_counter``; its status; its latency in seconds."""


class Connection:
    """One keep-alive connection, a request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes, tally: Tally, start: float) -> None:
        """Sends the request and reads the whole answer."""
        try:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
            self._writer.write(request)
            head = await self._reader.readuntil(b"\r\n\r\n")
            first = perf_counter()
            status = head[9:12].decode()
            body = await self._body(head.lower(), self._reader)
            if status == "200":
                is_complete = b'"usage"' in body or b"[DONE]" in body
                tally.statuses["200" if is_complete else "incomplete"] += 1
                tally.seconds.append(perf_counter() - start)
                tally.first_byte.append(first - start)
                position = body.find(b'"id"')
                tally.ids.append(body[position + 4 : position + 60].split(b'"')[1].decode())
            else:
                needs_time = status in ("429", "503") and b"retry-after:" not in head.lower()
                tally.statuses[f"{status} without retry-after" if needs_time else status] += 1
            tally.trace.append((start, status, perf_counter() - start))
            if b"connection: close" in head.lower():
                self.close()
        except (OSError, asyncio.IncompleteReadError) as exc:
            tally.statuses[type(exc).__name__] += 1
            self.close()

    async def _body(self, head: bytes, reader: asyncio.StreamReader) -> bytes:
        if b"transfer-encoding: chunked" in head:
            parts = []
            while (size := int(await reader.readline(), 16)) > 0:
                parts.append(await reader.readexactly(size))
                await reader.readexactly(2)
            await reader.readexactly(2)
            return b"".join(parts)
        start = head.find(b"content-length:")
        return await reader.readexactly(int(head[start + 15 : head.find(b"\r\n", start)]))

    def close(self) -> None:
        """Ends the connection; the next request opens another."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def request_bytes(url: str, model: str, *, is_streamed: bool, key: str, text: str) -> bytes:
    """One request with a prompt of about 120 tokens."""
    parts = urlsplit(url)
    body = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant. " * 8},
            {"role": "user", "content": f"{text} What is the answer to everything? " + "Think. " * 30},
        ],
        "max_tokens": 64,
    }
    if is_streamed:
        body["stream"] = True
    content = json.dumps(body).encode()
    authorization = f"authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n{authorization}"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def load(arguments: argparse.Namespace) -> dict[str, object]:
    """Runs the load and returns the figures."""
    parts = urlsplit(arguments.url)
    tally = Tally()
    connections = [Connection(parts.hostname or "", parts.port or 80) for _ in range(arguments.connections)]
    numbers = iter(range(arguments.requests))
    started = perf_counter()

    def request(number: int) -> bytes:
        return request_bytes(
            arguments.url,
            arguments.model,
            is_streamed=arguments.stream,
            key=arguments.key,
            text=f"Request {number}.",
        )

    async def closed(connection: Connection) -> None:
        for number in numbers:
            await connection.ask(request(number), tally, perf_counter())

    async def open_loop() -> None:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in connections:
            free.put_nowait(connection)

        async def one(number: int, due: float) -> None:
            connection = await free.get()
            await connection.ask(request(number), tally, due)  # waiting for a connection is latency too
            free.put_nowait(connection)

        tasks = []
        for number in numbers:
            due = started + number / arguments.rate
            await asyncio.sleep(max(0.0, due - perf_counter()))
            tasks.append(asyncio.ensure_future(one(number, due)))
        await asyncio.gather(*tasks)

    if arguments.rate:
        await open_loop()
    else:
        await asyncio.gather(*(closed(connection) for connection in connections))
    elapsed = perf_counter() - started
    for connection in connections:
        connection.close()
    return {
        "requests_per_second": len(tally.seconds) / elapsed,
        "seconds": elapsed,
        "p50_ms": 1e3 * quantile(tally.seconds, 0.5),
        "p99_ms": 1e3 * quantile(tally.seconds, 0.99),
        "first_byte_p50_ms": 1e3 * quantile(tally.first_byte, 0.5),
        "first_byte_p99_ms": 1e3 * quantile(tally.first_byte, 0.99),
        "statuses": dict(tally.statuses),
        "ids": tally.ids if arguments.ids else [],
        "trace": [(due - started, status, latency) for due, status, latency in tally.trace]
        if arguments.trace
        else [],
    }


def quantile(values: Sequence[float], level: float) -> float:
    """The value below which this share of the values lies; NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(level * len(ordered)))] if ordered else float("nan")


def main() -> None:
    """Parses the arguments, runs the load and prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("connections", type=int)
    parser.add_argument("requests", type=int)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--key", default="")
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--trace", action="store_true")
    import uvloop

    sys.stdout.write(json.dumps(uvloop.run(load(parser.parse_args()))))


if __name__ == "__main__":
    main()
