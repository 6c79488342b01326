"""From calls of clients to rows of a policy gradient: the tokens, log-probs and temperatures of the real engine."""

import asyncio
from pathlib import Path

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RunKey
from upturn.config import FULL_DISTRIBUTION, GatewayConfig
from upturn.dialects import Message, ModelRequest, Sampling, Text, dialect_of
from upturn.loop.online import Arrival, Client, OnlineService, Opinion, RouteTable, accept_feedback
from upturn.loop.trainers import parse_full_config
from upturn.loop.trainers.traffic import find_sampled, traffic_of
from upturn.models import load_local
from upturn.models.engine import LocalEngine
from upturn.models.upstreams import EngineThread, LocalUpstream, Upstream, script_for
from upturn.pool import Pool
from upturn.records import AgentVersion, TokenRow
from upturn.training.algorithms.offline import OfflineSettings

CLIENT = Client("default")
NANO = AgentVersion("nano", "base", "local_model", model=MODEL)


async def talk(service: OnlineService, episode: str, temperature: float | None, *, is_streamed: bool) -> None:
    """An episode of two calls with a thumb up, sealed."""
    messages: tuple[Message, ...] = (Message("user", (Text("open the door"),)),)
    for _ in range(2):
        sampling = Sampling(max_tokens=12, temperature=temperature)
        request = ModelRequest("nano", messages, sampling=sampling, is_streamed=is_streamed)
        asked = Arrival(dialect_of("chat"), b"", request, CLIENT, {}, episode)
        async with service.serve(asked) as live:
            async for _ in live.chunks():
                pass
            exchange = live._exchange
            assert exchange is not None
            answer = exchange.outcome.answer
        assert answer is not None
        messages = (*messages, Message("assistant", answer.parts), Message("user", (Text("and the window"),)))
    await accept_feedback(service.pool, service.log, Opinion("episode", episode, "thumbs", 1.0), CLIENT)
    await service.seal(episode, CLIENT)


def recomputed(row: TokenRow, temperature: float) -> list[float]:
    """The log-probs of the written tokens, by one pass over the whole row."""
    with torch.no_grad():
        logits = load_local(MODEL).model(torch.tensor([row.token_ids])).logits[0] / temperature
    logprobs = logits.log_softmax(-1)
    written = [index for span in row.spans for index in range(span.start, span.stop)]
    return [float(logprobs[index - 1, row.token_ids[index]]) for index in written]


def test_sampled_calls_become_rows_with_the_log_probs_of_their_sampler(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    local = load_local(MODEL)
    engine = EngineThread(lambda: LocalEngine(local.model, slots=4, max_length=256, tokenizer=local.tokenizer))
    upstream: Upstream = LocalUpstream(
        engine,
        lambda: script_for(local.renderer(), ""),
        model="nano@base",
        temperature=0.5,
        sampling=FULL_DISTRIBUTION,
        max_length=lambda: 256,
    )
    registry = AgentRegistry()
    registry.add(NANO)

    async def run(pool: Pool) -> None:
        router = Router(registry, DiscountedThompson(), RunKey("test", 0))
        service = OnlineService(pool, router, RouteTable(GatewayConfig(), registry), lambda _: upstream)
        await talk(service, "own", None, is_streamed=False)
        await talk(service, "streamed", 1.0, is_streamed=True)
        await talk(service, "greedy", 0.0, is_streamed=False)
        await upstream.close()

    settings = parse_full_config(
        {"agents": [{"name": "nano", "kind": "local_model", "model": MODEL}], "traffic": {}}
    )
    with Pool.open(tmp_path / "pool.db") as pool:
        asyncio.run(run(pool))
        traffic = traffic_of(pool, settings, NANO)
        found = find_sampled(traffic, settings.section(OfflineSettings))
    assert [episode.reward.value for episode in traffic.episodes] == [1.0, 1.0, 1.0]
    trajectories = {item.trajectory.id.split(":")[2]: item.trajectory for item in found.items}
    assert {name: each.temperature for name, each in trajectories.items()} == {"own/0": 0.5, "streamed/0": 1.0}
    assert len({item.task.id for item in found.items}) == 1
    assert found.left_out["temperature"] == 1
    for trajectory in trajectories.values():
        assert trajectory.temperature is not None
        assert trajectory.model_versions != ("",)
        assert sum(len(row.spans) for row in trajectory.rows) == 2
        for row in trajectory.rows:
            recorded = row.sampling_logprobs or row.logprobs
            assert recomputed(row, trajectory.temperature) == pytest.approx(recorded, abs=1e-4)
