"""Calls of a tenant that anonymises before anything is stored."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.loop.online.online_desk import Desk, Scripted, open_desk
from upturn.dialects import Image, Message, ModelRequest, Text, ToolCall, ToolDefinition, ToolResult, dialect_of
from upturn.loop.online import Arrival, Client
from upturn.models.upstreams import CallOutcome, Chunk, Exchange, UpstreamCall, UpstreamError
from upturn.pool import Pool
from upturn.pool.access import delete_pseudonym_key, set_policy
from upturn.pool.calls import StoredCall, calls_of_episode
from upturn.records import TokenRow, WrittenSpan

CLIENT = Client("default")
MAIL, OTHER_MAIL, CARD = "maria.silva@corp.de", "jonas.weber@corp.de", "4111 1111 1111 1111"
CANARIES = (MAIL, OTHER_MAIL, CARD, "4111111111111111")
ROW = TokenRow((1, 2, 3), (WrittenSpan(0, 2, 3, "m"),), (-0.5,))


def said(role: str, *parts: str) -> Message:
    return Message(role, tuple(map(Text, parts)))  # type: ignore[arg-type]


def choose(pool: Pool, tenant: str = "default", **changes: str) -> None:
    set_policy(pool, changes, tenant=tenant, who="ana", why="contract", when=1.0)


async def call(desk: Desk, *messages: Message, client: Client = CLIENT, episode: str | None = None) -> str:
    """The decision of a call, once it is answered."""
    tools = (ToolDefinition("mail", f"Writes to {OTHER_MAIL}."),)
    request = ModelRequest("default", messages, tools)
    async with desk.service.serve(Arrival(dialect_of("chat"), b"", request, client, {}, episode)) as live:
        async for _ in live.chunks():
            pass
        return live.decided.decision.id


def stored(pool: Pool, decision: str) -> StoredCall:
    [found] = [
        member
        for member in calls_of_episode(pool.engine, episode_of(pool, decision), tenant="default")
        if member.call.id == decision
    ]
    return found


def episode_of(pool: Pool, decision: str) -> str:
    [found] = [record.episode for record in pool.decisions(tenant="default") if record.id == decision]
    assert found is not None
    return found


def canaries_in(folder: Path) -> set[str]:
    """Those that the bytes of any file have."""
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    return {canary for canary in CANARIES if canary.encode() in content}


class WithTokens(Scripted):
    """An upstream whose answers have tokens."""

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        async with super().open(call) as exchange:
            yield _Captured(exchange)


class _Captured:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def chunks(self) -> AsyncIterator[Chunk]:
        return self._exchange.chunks()

    @property
    def outcome(self) -> CallOutcome:
        return replace(self._exchange.outcome, tokens=ROW)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db", has_journal=True) as opened:
        choose(opened, anonymise="write")
        yield opened


async def test_model_and_client_see_the_original_and_no_file_has_it(pool: Pool, tmp_path: Path) -> None:
    desk = open_desk(pool, agents=("ann",))
    upstream = desk.upstreams["ann@1"]
    upstream.answer_with(Text(f"Done, {MAIL}."), ToolCall("c", "pay", f'{{"card": "{CARD}", "{MAIL}": 1}}'))
    first = (said("system", "Help."), said("user", f"I am {MAIL}, card {CARD}."))
    request = ModelRequest("default", first)
    async with desk.service.serve(Arrival(dialect_of("chat"), b"", request, CLIENT, {})) as live:
        content = b"".join([part.content async for part in live.chunks()])
    decision = live.decided.decision.id
    assert MAIL.encode() in content
    assert CARD.encode() in content
    assert upstream.calls[0].request == request
    assert canaries_in(tmp_path) == set()  # the journal has acknowledged it
    await desk.service.log.settle()
    assert canaries_in(tmp_path) == set()
    member = stored(pool, decision)
    assert member.content is not None
    assert "I am <EMAIL>, card <CARD>." in member.content.messages
    assert "Done, <EMAIL>." in member.content.answer
    assert "<CARD>" in member.content.answer


async def test_conversations_continue_also_after_a_restart(pool: Pool, tmp_path: Path) -> None:
    desk = open_desk(pool, agents=("ann",))
    desk.upstreams["ann@1"].answer_with(ToolCall("c1", "pay", f'{{"card": "{CARD}"}}'), finish="tool_calls")
    opening = said("user", f"I am {MAIL}.")
    first = await call(desk, opening)
    talk = (
        opening,
        Message("assistant", (ToolCall("other", "pay", f'{{ "card":"{CARD}" }}'),)),  # as another client writes it
        Message("tool", (ToolResult("other", (Text(f"paid by {CARD}"),)),)),
    )
    desk.upstreams["ann@1"].answer_with(Text(f"Paid, {MAIL}."))
    second = await call(desk, *talk)
    restarted = open_desk(pool, agents=("ann",))
    await restarted.service.log.settle()
    third = await call(restarted, *talk, said("assistant", f"Paid, {MAIL}."), said("user", "Thanks."))
    await restarted.service.log.settle()
    assert [stored(pool, name).call.extends for name in (first, second, third)] == [None, first, second]
    assert len({episode_of(pool, name) for name in (first, second, third)}) == 1
    content = stored(pool, third).content
    assert content is not None
    assert '"Thanks."' in content.messages
    assert "<EMAIL>" not in content.messages  # only what is new is stored
    sealed = await restarted.service.seal(episode_of(pool, first), CLIENT)
    [trajectory] = pool.trajectories(tenant="default")
    assert trajectory.id == sealed.trajectory_id
    assert [turn.text for turn in trajectory.turns][1:] == ["Paid, <EMAIL>.", "ann@1 heard 5"]
    assert canaries_in(tmp_path) == set()


async def test_two_people_with_the_same_words_are_told_apart_while_the_gateway_runs(pool: Pool) -> None:
    desk = open_desk(pool, agents=("ann",))
    names = [await call(desk, said("user", f"I am {mail}.")) for mail in (MAIL, OTHER_MAIL)]
    answer = "ann@1 heard 1"
    later = await call(desk, said("user", f"I am {MAIL}."), said("assistant", answer), said("user", "And?"))
    await desk.service.log.settle()
    assert stored(pool, later).call.extends == names[0]
    # The digests that are stored are of the words that are stored: they confirm no guess of the address.
    assert len({stored(pool, name).call.prefix for name in names}) == 1


async def test_tokens_are_dropped_with_the_words_that_they_contain(pool: Pool) -> None:
    desk = open_desk(pool, agents=("ann",))
    desk.service._upstream = lambda _: WithTokens("ann@1")
    clean = await call(desk, said("user", "What is on today?"))
    marked = await call(desk, said("user", f"I am {MAIL}."))
    later = await call(
        desk, said("user", f"I am {MAIL}."), said("assistant", "ann@1 heard 1"), said("user", "Thanks.")
    )
    await desk.service.log.settle()
    contents = [stored(pool, name).content for name in (clean, marked, later)]
    # The tool of all of them names a person.
    assert [content is not None and content.tokens for content in contents] == ["", "", ""]
    request = ModelRequest("default", (said("user", "What is on today?"),))
    async with desk.service.serve(Arrival(dialect_of("chat"), b"", request, CLIENT, {}, "clean")) as live:
        assert [part async for part in live.chunks()]
    await desk.service.log.settle()
    [member] = calls_of_episode(pool.engine, "clean", tenant="default")
    assert member.content is not None
    assert '"token_ids":[1,2,3]' in member.content.tokens


async def test_failed_calls_and_embeddings_store_no_original(pool: Pool, tmp_path: Path) -> None:
    desk = open_desk(pool, agents=("ann",))
    desk.upstreams["ann@1"].error = UpstreamError(f"cannot serve {MAIL}", kind="status", status=400)
    with pytest.raises(Exception, match=r"cannot serve"):
        await call(desk, said("user", f"I am {MAIL}."))
    desk.upstreams["ann@1"].error = None
    request = ModelRequest("default", (said("user", CARD),))
    await desk.service.embed(Arrival(dialect_of("chat"), b"{}", request, CLIENT, {}))
    await desk.service.log.settle()
    assert canaries_in(tmp_path) == set()
    errors = [member.call.error for name in names(pool) for member in [stored(pool, name)]]
    assert any("<EMAIL>" in error for error in errors)


def names(pool: Pool) -> list[str]:
    return [decision.id for decision in pool.decisions(tenant="default")]


async def test_pseudonyms_are_those_of_exports_and_a_deleted_key_is_replaced(pool: Pool, tmp_path: Path) -> None:
    choose(pool, replace_by="pseudonyms")
    desk = open_desk(pool, agents=("ann",))
    first = await call(desk, said("user", f"I am {MAIL}."))
    again = await call(desk, said("user", f"Is {MAIL} there?"))
    await desk.service.log.settle()
    assert delete_pseudonym_key(pool.location, tenant="default", who="ana", why="ended", when=2.0)
    desk.service.border.refresh()
    other = await call(desk, said("user", f"Who is {MAIL}?"))
    await desk.service.log.settle()
    pseudonyms = [_address_in(stored(pool, name)) for name in (first, again, other)]
    assert pseudonyms[0] == pseudonyms[1] != pseudonyms[2]
    assert canaries_in(tmp_path) == set()


def _address_in(member: StoredCall) -> str:
    assert member.content is not None
    [word] = [word for word in member.content.messages.replace('"', " ").split() if "@example.com" in word]
    return word.strip(".?")


async def test_another_tenant_is_stored_as_it_is(pool: Pool) -> None:
    desk = open_desk(pool, agents=("ann",))
    await call(desk, said("user", f"I am {MAIL}."), client=Client("other"), episode="e")
    await desk.service.log.settle()
    [member] = calls_of_episode(pool.engine, "e", tenant="other")
    assert member.content is not None
    assert MAIL in member.content.messages


async def test_a_changed_policy_holds_for_the_next_call_and_for_the_seal(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "late.db") as pool:
        desk = open_desk(pool, agents=("ann",))
        await call(desk, said("user", f"I am {MAIL}."), episode="e")
        choose(pool, anonymise="write")
        desk.service.border.refresh()
        await call(desk, said("user", f"Pay with {CARD}."), episode="e")
        await desk.service.seal("e", CLIENT)
        [trajectory] = pool.trajectories(tenant="default")
    assert [turn.observation.text.rpartition("\n")[2] for turn in trajectory.turns] == [
        "I am <EMAIL>.",
        "Pay with <CARD>.",
    ]


async def test_images_pass_unchanged_beside_words_that_are_replaced(pool: Pool) -> None:
    desk = open_desk(pool, agents=("ann",))
    picture, other = Image("image/png", "iVBORw0KGgo" * 100), Image("image/png", "R0lGODlhAQ" * 100)
    asked = Message("user", (Text(f"Look, {MAIL}."), picture))
    called = Message("assistant", (ToolCall("c", "see", "{}"),))
    seen = Message("tool", (ToolResult("c", (Text(MAIL), other)),))
    name = await call(desk, asked, called, seen)
    await desk.service.log.settle()
    content = stored(pool, name).content
    assert content is not None
    assert '"Look, <EMAIL>."' in content.messages
    assert picture.data in content.messages
    assert other.data in content.messages
    assert MAIL not in content.messages
