"""Clients that open a stream and leave: ``python -m benchmarks.gateway.abandon URL COUNT``."""

import asyncio
import random
import sys
from urllib.parse import urlsplit

from benchmarks.gateway.load import request_bytes

_AT_ONCE = 64


async def abandon(url: str, count: int) -> None:
    """Half of the clients leave before the first byte, half after it."""
    parts = urlsplit(url)
    places, rng = asyncio.Semaphore(_AT_ONCE), random.Random(0)

    async def one(number: int) -> None:
        async with places:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(request_bytes(url, "default", is_streamed=True, key="", text=f"Abandoned {number}."))
            if rng.random() < 0.5:
                await reader.read(1)
            else:
                await asyncio.sleep(rng.random() * 0.01)
            writer.close()

    await asyncio.gather(*(one(number) for number in range(count)))


if __name__ == "__main__":
    asyncio.run(abandon(sys.argv[1], int(sys.argv[2])))
