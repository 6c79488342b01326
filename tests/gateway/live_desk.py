"""A gateway of two callable agents with a second version of one, for tests of what operators do while it serves."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import httpx2

from upturn.config import Config
from upturn.gateway import Gateway, Source, open_gateway
from upturn.loop.trainers import parse_full_config
from upturn.pool import Pool
from upturn.records import AgentVersion

FUNCTION = f"{__name__}:answer"
OLD, NEW, OTHER = "clerk@base", "clerk@2", "helper@base"
NO_FILE = Source(None, {})
WHY = {"why": "tested by hand", "who": "ana"}


OPEN = Event()
"""``answer_when_open`` waits for it."""
OPEN.set()


def answer(_instruction: str, _turns: object, _observation: object) -> str:
    """Every agent's answer."""
    return "done"


def answer_when_open(_instruction: str, _turns: object, _observation: object) -> str:
    """The answer of an agent that may be slow."""
    assert OPEN.wait(timeout=60.0)
    return "done"


def config_of(pool: Path, **sections: Any) -> Config:
    """Two callable agents, and canaries that begin with half of the traffic."""
    agents = [{"name": name, "kind": "callable", "import_path": FUNCTION} for name in ("clerk", "helper")]
    canary = {"stages": [0.5, 1.0], "min_candidate_tasks": 10, **sections.pop("canary", {})}
    return parse_full_config(
        {"agents": agents, "loop": {"train": []}, "pool": {"path": str(pool)}, "canary": canary, **sections}
    )


class LiveDesk(NamedTuple):
    """An open gateway with a client."""

    gateway: Gateway
    client: httpx2.AsyncClient
    pool: Pool

    async def call(self, model: str = "clerk", *, episode: str = "") -> Mapping[str, str]:
        """Makes a call; returns its headers once reads see it."""
        headers = {"x-upturn-episode": episode} if episode else {}
        body = {"model": model, "messages": [{"role": "user", "content": "do it"}]}
        response = await self.client.post("/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 200, response.text
        await self.gateway.service.log.settle()
        return response.headers

    async def rate(self, value: float, **subject: str) -> None:
        """Gives feedback."""
        response = await self.client.post("/v1/feedback", json={"metric": "success", "value": value, **subject})
        assert response.status_code == 200, response.text

    async def serve(self, count: int, values: Mapping[str, float], model: str = "clerk") -> list[str]:
        """Makes calls and rates each by the version that answered; returns the versions."""
        versions = []
        for _ in range(count):
            headers = await self.call(model)
            versions.append(headers["x-upturn-agent-version"])
            await self.rate(values[versions[-1]], decision_id=headers["x-upturn-decision"])
        return versions

    async def start_release(self) -> str:
        """Starts the release of the new version over HTTP; returns its id."""
        body = {"incumbent": OLD, "candidate": NEW, "skip_validation": True, **WHY}
        response = await self.client.post("/v1/releases", json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    async def release(self, release: str) -> dict[str, Any]:
        """The release as the gateway shows it."""
        return dict((await self.client.get(f"/v1/releases/{release}")).json())

    async def act(self, release: str, act: str) -> httpx2.Response:
        """An operator's act on a release."""
        return await self.client.post(f"/v1/releases/{release}/{act}", json=WHY)


@asynccontextmanager
async def live(config: Config, source: Source = NO_FILE) -> AsyncIterator[LiveDesk]:
    """An open gateway whose second version of the clerk is stored."""
    with open_gateway(config, source, host="127.0.0.1") as gateway:
        pool = gateway.service.pool
        pool.append(AgentVersion("clerk", "2", "callable", model=FUNCTION))
        transport = httpx2.ASGITransport(app=gateway.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield LiveDesk(gateway, client, pool)
