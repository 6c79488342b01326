"""The online service: decisions, episodes, storage before an answer's end, fallbacks, departures."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.loop.online.online_desk import Desk, open_desk
from upturn.config import GatewayConfig, PriceConfig, RouteConfig
from upturn.dialects import (
    Conversation,
    Message,
    ModelAnswer,
    ModelRequest,
    Reasoning,
    RequestError,
    Text,
    TokenUsage,
    ToolCall,
    ToolResult,
    dialect_of,
)
from upturn.loop.online import Arrival, Client
from upturn.models.upstreams import UpstreamError
from upturn.pool import Pool, Selection, tags_of
from upturn.pool.calls import StoredCall, calls_of_episode
from upturn.records import Decision, ModelUsage, episode_task_id, from_fields

CLIENT = Client("default")


def arrival(
    *messages: Message, model: str = "default", episode: str | None = None, client: Client = CLIENT
) -> Arrival:
    asked = messages or (Message("user", (Text("hello"),)),)
    return Arrival(dialect_of("chat"), b"", ModelRequest(model, asked), client, {}, episode)


async def serve(desk: Desk, asked: Arrival) -> tuple[bytes, dict[str, str]]:
    """The answer's bytes and the headers."""
    async with desk.service.serve(asked) as call:
        content = b"".join([part.content async for part in call.chunks()])
        return content, dict(call.headers)


def stored(desk: Desk, episode: str) -> list[StoredCall]:
    return calls_of_episode(desk.pool.engine, episode, tenant="default")


def decisions(desk: Desk) -> list[Decision]:
    return list(desk.pool.decisions(tenant="default"))


async def test_a_call_is_durable_before_the_part_that_ends_its_answer(desk: Desk) -> None:
    async with desk.service.serve(arrival()) as call:
        async for _ in call.chunks():
            [member] = stored(desk, call.headers["x-upturn-episode"])
            assert (member.call.id, member.call.status) == (call.headers["x-upturn-decision"], "answered")


async def test_what_is_stored(desk: Desk) -> None:
    _, headers = await serve(desk, arrival())
    [decision] = decisions(desk)
    [member] = stored(desk, headers["x-upturn-episode"])
    assert decision.id == member.call.id == headers["x-upturn-decision"]
    assert decision.chosen == member.call.agent_version == headers["x-upturn-agent-version"]
    assert decision.propensity == 0.5
    assert sum(option.probability for option in decision.alternatives) == pytest.approx(1.0)
    assert (member.call.input_tokens, member.call.output_tokens, member.call.finish) == (10, 5, "stop")
    assert member.content is not None
    assert from_fields(Conversation, member.content.messages).messages == (Message("user", (Text("hello"),)),)
    answer = from_fields(ModelAnswer, member.content.answer)
    assert answer.parts == (Text(f"{decision.chosen} heard 1"),)
    assert answer.id == decision.id


async def test_an_episode_stays_with_its_version_and_stores_only_new_messages(desk: Desk) -> None:
    first = Message("user", (Text("hello"),))
    _, headers = await serve(desk, arrival(first))
    version = headers["x-upturn-agent-version"]
    history = [first]
    for turn in range(8):
        history += [
            Message("assistant", (Text(f"{version} heard {len(history)}"),)),
            Message("user", (Text(f"again {turn}"),)),
        ]
        _, later = await serve(desk, arrival(*history))
        assert later["x-upturn-episode"] == headers["x-upturn-episode"]
        assert later["x-upturn-agent-version"] == version
    members = stored(desk, headers["x-upturn-episode"])
    assert [member.call.extends for member in members] == [None, *(member.call.id for member in members[:-1])]
    lengths = [
        len(from_fields(Conversation, member.content.messages).messages) for member in members if member.content
    ]
    assert lengths == [1] * 9
    assert [decision.is_sticky for decision in decisions(desk)] == [False] + [True] * 8


async def test_an_episode_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = Message("user", (Text("hello"),))
    with Pool.open(tmp_path / "pool.db") as pool:
        desk = open_desk(pool)
        _, by_prefix = await serve(desk, arrival(first))
        _, by_name = await serve(desk, arrival(first, episode="s"))
    version = by_prefix["x-upturn-agent-version"]
    answer = Message("assistant", (Text(f"{version} heard 1"),))
    with Pool.open(tmp_path / "pool.db") as pool:
        for _ in range(6):  # by chance all are equal once in 64 times
            desk = open_desk(pool)
            _, headers = await serve(desk, arrival(first, answer, Message("user", (Text("more"),))))
            assert headers["x-upturn-episode"] == by_prefix["x-upturn-episode"]
            assert headers["x-upturn-agent-version"] == version
            _, headers = await serve(desk, arrival(first, episode="s"))
            assert headers["x-upturn-agent-version"] == by_name["x-upturn-agent-version"]


async def test_a_failed_upstream_falls_back_and_both_are_recorded(desk: Desk) -> None:
    desk.upstreams["ann@1"].error = UpstreamError("ann is down", kind="connect")
    _, headers = await serve(desk, arrival())
    assert headers["x-upturn-agent-version"] == "ben@1"
    [member] = stored(desk, headers["x-upturn-episode"])
    [decision] = decisions(desk)
    assert member.call.agent_version == "ben@1"
    assert member.call.attempted == (("ann@1",) if decision.chosen == "ann@1" else ())


async def test_a_refused_request_does_not_fall_back(desk: Desk) -> None:
    for upstream in desk.upstreams.values():
        upstream.error = UpstreamError("temperature must be at most 1", kind="status", status=400)
    with pytest.raises(RequestError, match="temperature must be at most 1") as caught:
        await serve(desk, arrival(episode="s"))
    assert caught.value.status == 400
    assert sum(len(upstream.calls) for upstream in desk.upstreams.values()) == 1
    [member] = stored(desk, "s")
    assert (member.call.status, member.call.error) == ("failed", "temperature must be at most 1")


async def test_without_fallback_and_for_a_named_version_only_the_chosen_upstream_is_called(tmp_path: Path) -> None:
    config = GatewayConfig(routes=(RouteConfig(name="strict", fallback=False),))
    with Pool.open(tmp_path / "pool.db") as pool:
        desk = open_desk(pool, config)
        for upstream in desk.upstreams.values():
            upstream.error = UpstreamError("down", kind="connect")
        for model in ("strict", "ann@1", "ann"):
            with pytest.raises(RequestError) as caught:
                await serve(desk, arrival(model=model))
            assert (caught.value.status, caught.value.code) == (502, "upstream_error")
        assert sum(len(upstream.calls) for upstream in desk.upstreams.values()) == 3


async def test_a_client_that_leaves_ends_the_upstream_before_its_first_token(desk: Desk) -> None:
    for upstream in desk.upstreams.values():
        upstream.gate = asyncio.Event()
    serving = asyncio.ensure_future(serve(desk, arrival(episode="s")))
    while not any(upstream.calls for upstream in desk.upstreams.values()):
        await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await desk.service.log.drain()
    assert sum(upstream.cancelled for upstream in desk.upstreams.values()) == 1
    [member] = stored(desk, "s")
    assert member.call.status == "cancelled"
    assert all(desk.service.router.load.in_flight(agent) == 0 for agent in ("ann", "ben"))


async def test_a_version_can_be_named_and_an_unknown_model_lists_the_known(desk: Desk) -> None:
    _, headers = await serve(desk, arrival(model="ben@1"))
    assert headers["x-upturn-agent-version"] == "ben@1"
    assert headers["x-upturn-propensity"] == "1"
    with pytest.raises(RequestError, match="unknown model 'gpt'; known: default, ann, ben, ann@1, ben@1") as caught:
        await serve(desk, arrival(model="gpt"))
    assert caught.value.status == 404


async def test_routes_have_agents_and_aliases(tmp_path: Path) -> None:
    config = GatewayConfig(routes=(RouteConfig(name="ours", agents=("ben",), aliases=("claude-*",)),))
    with Pool.open(tmp_path / "pool.db") as pool:
        desk = open_desk(pool, config)
        for model in ("ours", "claude-sonnet-5"):
            _, headers = await serve(desk, arrival(model=model))
            assert headers["x-upturn-agent-version"] == "ben@1"


async def test_an_open_tool_loop_keeps_the_version_that_is_no_longer_in_service(desk: Desk) -> None:
    for upstream in desk.upstreams.values():
        upstream.answer_with(ToolCall("c1", "find", "{}"), finish="tool_calls")
    question = Message("user", (Text("look"),))
    _, headers = await serve(desk, arrival(question))
    version = headers["x-upturn-agent-version"]
    desk.service.router.registry.remove(version.partition("@")[0])
    called = Message("assistant", (ToolCall("c1", "find", "{}"),))
    result = Message("tool", (ToolResult("c1", (Text("found"),)),))
    _, open_loop = await serve(desk, arrival(question, called, result))
    assert open_loop["x-upturn-agent-version"] == version
    _, closed = await serve(desk, arrival(question, called, result, Message("user", (Text("and now?"),))))
    assert closed["x-upturn-agent-version"] != version


async def test_thoughts_of_another_model_are_taken_out_on_a_fallback(desk: Desk) -> None:
    for upstream in desk.upstreams.values():
        upstream.answer_with(Reasoning("hm", "signature"), Text("4"))
    question = Message("user", (Text("2 + 2?"),))
    _, headers = await serve(desk, arrival(question))
    version = headers["x-upturn-agent-version"]
    desk.upstreams[version].error = UpstreamError("down", kind="connect")
    answer = Message("assistant", (Reasoning("hm", "signature"), Text("4")))
    _, later = await serve(desk, arrival(question, answer, Message("user", (Text("sure?"),))))
    other = later["x-upturn-agent-version"]
    assert other != version
    sent = desk.upstreams[other].calls[-1].request.messages
    assert sent[1] == Message("assistant", (Text("4"),))
    assert stored(desk, later["x-upturn-episode"])[-1].call.changes == ("thoughts of another model",)


async def test_a_sealed_episode_is_a_trajectory_and_refuses_later_calls(desk: Desk) -> None:
    await serve(desk, arrival(episode="s"))
    sealed = await desk.service.seal("s", CLIENT)
    assert sealed.trajectory_id == "episode:default:s/0"
    [trajectory] = desk.pool.trajectories(tenant="default")
    assert [turn.observation.text for turn in trajectory.turns] == ["hello"]
    assert (await desk.service.seal("s", CLIENT)).trajectory_id == sealed.trajectory_id
    for again in (desk, open_desk(desk.pool)):
        with pytest.raises(RequestError, match="episode 's' is sealed") as caught:
            await serve(again, arrival(episode="s"))
        assert caught.value.status == 409
        assert again.service.refused_after_seal == 1


async def test_turns_of_a_sealed_episode_have_the_tokens_of_their_calls(desk: Desk) -> None:
    desk = open_desk(desk.pool, agents=("ann",), prices={"ann@1": PriceConfig(input=1.0, output=1.0)})
    calls = tuple(ToolCall(name, "look", "{}") for name in ("c1", "c2"))
    counted = TokenUsage(100, 10, 60, cache_write=30, cache_write_1h=20)
    desk.upstreams["ann@1"].answer = lambda _: ModelAnswer("", "m", calls, "tool_calls", counted)
    await serve(desk, arrival(episode="s"))
    desk.upstreams["ann@1"].answer = lambda _: ModelAnswer("", "m", (Text("x" * 8),), "stop")
    await serve(desk, arrival(episode="s"))
    await desk.service.seal("s", CLIENT)
    [trajectory] = desk.pool.trajectories(tenant="default")
    estimated = ModelUsage(2, 2, is_estimated=True)  # "hello" and eight letters, at four bytes a token
    assert [turn.usage for turn in trajectory.turns] == [ModelUsage(100, 10, 60, 30, 20), None, estimated]
    assert (trajectory.usage.prompt_tokens, trajectory.usage.written_tokens) == (102, 12)
    cached = (trajectory.cached_tokens, trajectory.cache_write_tokens, trajectory.cache_write_1h_tokens)
    assert cached == (60, 30, 20)
    assert trajectory.is_usage_estimated


async def test_another_key_cannot_read_or_seal_an_episode(desk: Desk) -> None:
    await serve(desk, arrival(episode="s", client=Client("default", "k1")))
    for other in (Client("default", "k2"), Client("other", "k1"), CLIENT):
        with pytest.raises(RequestError, match="no episode"):
            await desk.service.seal("s", other)
    assert (await desk.service.seal("s", Client("default", "k1"))).id == "k1/s"


async def test_many_calls_at_once_are_all_stored(desk: Desk) -> None:
    await asyncio.gather(*(serve(desk, arrival(episode=f"s{number}")) for number in range(300)))
    assert len(decisions(desk)) == 300
    assert len({decision.id for decision in decisions(desk)}) == 300


async def test_the_tags_of_a_call_are_those_of_its_sealed_episode(desk: Desk) -> None:
    tagged = replace(arrival(episode="s"), tags=("vip", "march", "vip"))
    _, headers = await serve(desk, tagged)
    await serve(desk, tagged)
    await serve(desk, replace(tagged, tags=("late",)))
    assert len(list(desk.pool.feedback(tenant="default"))) == 3
    await desk.service.seal(headers["x-upturn-episode"], CLIENT)
    task_id = episode_task_id("default", headers["x-upturn-episode"])
    assert tags_of(desk.pool, [task_id], tenant="default") == {task_id: ["late", "march", "vip"]}
    assert len(desk.pool.selected(Selection(tags=("vip", "late")), tenant="default")) == 1
