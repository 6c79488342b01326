"""The online form of the service: one model call at a time, many at once, outcomes later.

A call is decided, sent to an upstream, stored with its decision, and only then ended: a client that has the last
byte of an answer has a call that survives a crash. Calls that fail, or whose client leaves, are stored too.

Everything runs in one event loop; only the pool's writer is another thread.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from time import perf_counter

from upturn.arbiter import Router
from upturn.config import PriceConfig
from upturn.dialects import ModelAnswer, RequestError, TokenUsage
from upturn.errors import RecordError, StoreError
from upturn.loop.online.account import UNLIMITED, Account, Left
from upturn.loop.online.arrival import Arrival, Decided
from upturn.loop.online.call_log import CallLog, CallTags
from upturn.loop.online.call_rows import CallRows, Tried, call_content, call_record, call_rows
from upturn.loop.online.call_task import Place, call_task, last_instruction
from upturn.loop.online.episode import (
    Client,
    EpisodeTracker,
    Known,
    Placement,
    has_open_tool_loop,
    has_signed_thought,
)
from upturn.loop.online.family import CallFacts
from upturn.loop.online.refusal import busy, refusals
from upturn.loop.online.routes import NAMED, RouteTable, Target, named_decision
from upturn.loop.online.sealing import StoredEpisode, read_episode, seal, sealed_trajectory
from upturn.loop.online.stored_words import StoredWords
from upturn.loop.online.text_features import CallTexts, TextFeatures
from upturn.models.upstreams import (
    CallOutcome,
    Chunk,
    Exchange,
    Hedge,
    Upstream,
    UpstreamCall,
    UpstreamError,
)
from upturn.pool import Pool, ReadyRow
from upturn.pool.access import Border
from upturn.pool.calls import episode_decision, latest_prefix
from upturn.records import Call, CallContent, CallStatus, Decision

_NO_TEXTS = CallTexts()
MAX_EPISODES = 10_000
"""Maximum number of sealed episodes in memory."""


class OnlineService:
    """Serves model calls. Use it in one event loop only."""

    def __init__(
        self,
        pool: Pool,
        router: Router,
        routes: RouteTable,
        upstream: Callable[[str], Upstream],
        *,
        price: Callable[[str], PriceConfig | None] = lambda _: None,
        texts: CallTexts = _NO_TEXTS,
    ) -> None:
        """``upstream``: of an agent version's id; LookupError for one that cannot be called. ``price``: of an
        agent version's id; None = unknown."""
        self.pool = pool
        self.router = router
        self.routes = routes
        self.log = CallLog(pool)
        self._upstream = upstream
        self.price = price
        self.texts = texts
        self.border = Border(pool)
        self._tags = CallTags(self.log, self.border)
        self.words = StoredWords(self.border)
        self._episodes = EpisodeTracker(self._find)
        self._sealed: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._live: set[LiveCall] = set()
        """Calls from their decision to the end of their answer."""
        self.refused_after_seal = 0
        """Calls that came after the seal of their episode."""

    def decide(
        self, arrival: Arrival, left: Left | None = None, *, embedded: TextFeatures | None = None
    ) -> Decided:
        """Returns the call's place and decision; raises RequestError for an unknown model or without an agent.

        ``left``: what the call may cost; None = anything. ``embedded``: features of its text by a server; None = it
        is not asked, or does not answer.
        """
        target = self.routes.resolve(arrival.request.model)
        call = f"call-{secrets.token_hex(12)}"
        placement = self._episodes.place(
            arrival.request,
            arrival.client,
            call,
            name=arrival.episode,
            agent=arrival.sub_agent,
            stored=arrival.stored,
        )
        tenant, episode = arrival.client.tenant, placement.episode
        self._restore(tenant, placement)
        tools = [tool.name for tool in arrival.request.tools]
        instruction = last_instruction(arrival.words)
        facts = CallFacts(tenant, target.route, arrival.facts, tools, instruction)
        text = self.texts.describe(
            facts, arrival.family, earlier=self.router.remembered(tenant, episode), embedded=embedded
        )
        place = Place(tenant, episode, target.route, text.family.name, is_guess=text.family.source != "named")
        task = call_task(
            call,
            arrival.request,
            place,
            instruction=instruction,
            regions=target.regions,
            text_features=text.features.values,
        )
        with refusals(left):
            decision = self.router.decide(
                task,
                episode=placement.episode,
                among=target.agents,
                budget_usd=None if left is None else left.usd,
                may_switch=self._may_switch(arrival),
            )
        decision = replace(
            decision,
            family_source=text.family.source,
            sketch=text.sketch,
            text_source=text.features.source if decision.features else "",
        )
        self.router.remember(decision)  # with the source of its family, for the next call of the episode
        decision = self._kept(arrival, target, placement, decision)
        return Decided(arrival, target, placement, task, decision)

    def _may_switch(self, arrival: Arrival) -> bool:
        """Whether an objective that weighs switches may move the call's episode to another agent."""
        objective, messages = self.router.objective, arrival.request.messages
        if objective is None or not objective.may_switch:
            return False
        return not (has_open_tool_loop(messages) or has_signed_thought(messages))

    def _charged(self, arrival: Arrival, account: Account, embedded: TextFeatures | None = None) -> Decided:
        """Decides a call, and reserves its expected cost where there is a budget."""
        left = account.left()
        decided = self.decide(arrival, left, embedded=embedded)
        if left is not None and self.router.objective is not None:
            account.reserve(self.router.objective.expected_usd(decided.task, decided.decision.chosen) or 0.0)
        return decided

    def _kept(self, arrival: Arrival, target: Target, placement: Placement, decision: Decision) -> Decision:
        """Returns the decision, or that of the version that the client named or that must stay."""
        if target.version is not None:
            return named_decision(decision, target.version, f"the client named {target.version}")
        if (earlier := placement.extends) is None or earlier.agent_version == decision.chosen:
            return decision
        for is_open, what in (
            (has_open_tool_loop(arrival.request.messages), "a tool loop"),
            (has_signed_thought(arrival.request.messages), "a signed thought"),
        ):
            if is_open and self._can_serve(earlier.agent_version):
                reason = f"{earlier.agent_version} stays: {what} of episode {placement.episode!r} is open"
                return named_decision(decision, earlier.agent_version, reason)
        return decision

    def _restore(self, tenant: str, placement: Placement) -> None:
        """Makes the router know the decision of an episode that began before a restart.

        Raises RequestError (409) for a sealed episode.
        """
        episode = placement.episode
        if not (placement.is_named or placement.extends is not None):
            return
        if self.router.remembered(tenant, episode) is None:
            if sealed_trajectory(self.pool.engine, episode, tenant) is not None:
                self._sealed[tenant, episode] = None
            elif (earlier := episode_decision(self.pool.engine, episode, tenant=tenant)) is not None:
                self.router.remember(earlier)
        if (tenant, episode) in self._sealed:
            self.refused_after_seal += 1
            raise RequestError(
                f"episode {episode!r} is sealed; begin another one", status=409, code="episode_sealed"
            )

    async def seal(self, name: str, client: Client) -> StoredEpisode:
        """Returns the sealed episode; see ``sealing.seal``. Its later calls are refused.

        Raises RequestError (409) while a call of the episode is being answered.
        """
        await self.log.settle()
        episode = read_episode(self.pool.engine, name, client).id
        key = client.tenant, episode
        if count := sum(call.is_in(key) for call in self._live):
            raise busy(episode, count)
        self._sealed[key] = None  # from now on it gets no further calls
        self._sealed.move_to_end(key)
        while len(self._sealed) > MAX_EPISODES:
            tenant, oldest = self._sealed.popitem(last=False)[0]
            self.router.forget(tenant, oldest)  # its next call looks up the seal in the pool
        try:
            return await seal(self.pool, self.log, episode, client, border=self.border)
        except BaseException:
            self._sealed.pop(key, None)
            raise

    def is_answering(self, tenant: str, decision_id: str) -> bool:
        """Whether the decision is of a call whose answer has not ended, and which is therefore not stored yet."""
        return any(
            not call.is_stored
            and call.decided.decision.id == decision_id
            and call.decided.decision.tenant == tenant
            for call in self._live
        )

    def _can_serve(self, version: str) -> bool:
        try:
            self._upstream(version)
        except LookupError:
            return False
        return True

    def _find(self, tenant: str, digests: Sequence[str]) -> tuple[str, Known] | None:
        call = latest_prefix(self.pool.engine, digests, tenant=tenant)
        return None if call is None else (call.prefix, Known(call.id, call.episode, call.agent_version))

    @asynccontextmanager
    async def serve(self, arrival: Arrival, account: Account = UNLIMITED) -> "AsyncIterator[LiveCall]":
        """Decides the call and opens its upstream; the answer is in the block, as ``LiveCall.chunks``.

        ``account``: pays for the call, also for a failed or cancelled one.

        Raises RequestError if the call cannot be decided, or no upstream answers it; the latter is stored. Leaving
        the block before the answer's end, or being cancelled, ends the upstream's call and stores a cancelled call.
        """
        arrival = await self._as_stored(arrival)
        embedder = self.texts.embedder
        embedded = None if embedder is None else await embedder.features(last_instruction(arrival.words))
        live = LiveCall(self, self._charged(arrival, account, embedded), account)
        with self._in_service(live):
            await self._tags.store(live.decided)
            async with AsyncExitStack() as stack:
                try:
                    await live.open(stack)
                    yield live
                finally:
                    if not live.is_stored:
                        live.store_cancelled()

    async def embed(self, arrival: Arrival, account: Account = UNLIMITED) -> tuple[bytes, Mapping[str, str]]:
        """Returns the answer to a request for embeddings, and the headers for the client, once it is durable.

        ``account``: see ``serve``.
        """
        arrival = await self._as_stored(arrival)
        live = LiveCall(self, self._charged(arrival, account), account)
        with self._in_service(live):
            return await live.embed(), live.headers

    async def _as_stored(self, arrival: Arrival) -> Arrival:
        """Returns the arrival with its request as it is stored."""
        stored = await self.words.of_request(arrival.request, arrival.client.tenant)
        return arrival if stored is arrival.request else replace(arrival, stored=stored)

    @contextmanager
    def _in_service(self, live: "LiveCall") -> Iterator[None]:
        """Counts the call as load of its agent, and in its episode."""
        agent = live.decided.decision.agent
        self.router.load.acquire(agent)
        self._live.add(live)
        try:
            yield
        finally:
            self._live.discard(live)
            self.router.load.release(agent)

    def upstreams_of(self, decided: Decided) -> Iterator[str]:
        """Yields the chosen version, then those that a failed call falls back to, the most probable first."""
        decision = decided.decision
        yield decision.chosen
        if not decided.target.has_fallback or decision.policy == NAMED:
            return
        others = sorted(
            (
                other
                for other in decision.alternatives
                if other.probability > 0
                and other.agent_version != decision.chosen
                and not self.router.constraints.reason(other.agent_version.rpartition("@")[0], decided.task)
            ),
            key=lambda other: -other.probability,
        )
        yield from (other.agent_version for other in others)

    def upstream(self, version: str) -> Upstream:
        """Returns the upstream of a version; raises LookupError if it cannot be called."""
        return self._upstream(version)

    def remember(self, decided: Decided, version: str, answer: ModelAnswer, stored: ModelAnswer) -> str:
        """Remembers an answered call for the next of its conversation; returns the conversation's digest.

        ``stored``: the answer as it is stored; the digest is of the conversation as it is stored."""
        known = Known(decided.decision.id, decided.placement.episode, version)
        return self._episodes.remember(
            decided.placement,
            known,
            answer.parts,
            message_count=len(decided.arrival.request.messages),
            agent=decided.arrival.sub_agent,
            stored=None if stored is answer else stored.parts,
        )


class LiveCall:
    """A call whose answer is on its way."""

    def __init__(self, service: OnlineService, decided: Decided, account: Account) -> None:
        self.decided = decided
        self.agent_version = decided.decision.chosen
        """The version that is tried, or that answers."""
        self.record: Call | None = None
        """As it is stored; None = it is on its way."""
        self.upstream_seconds = 0.0
        """Time that was spent waiting for upstreams."""
        self._service = service
        self._account = account
        self._exchange: Exchange | None = None
        self._attempted: list[str] = []
        self._rows: CallRows | None = None
        self._hedge = Hedge()
        self._changes = list(decided.arrival.changes)

    @property
    def _tenant(self) -> str:
        return self.decided.arrival.client.tenant

    @property
    def is_stored(self) -> bool:
        """Whether the call is stored, or will be."""
        return self.record is not None

    def is_in(self, episode: tuple[str, str]) -> bool:
        """Whether the call belongs to the episode (tenant, id) and is not stored yet."""
        decided = self.decided
        return not self.is_stored and (decided.arrival.client.tenant, decided.placement.episode) == episode

    @property
    def headers(self) -> Mapping[str, str]:
        """What the client is told about the decision."""
        decision = self.decided.decision
        return {
            "x-upturn-decision": decision.id,
            "x-upturn-episode": self.decided.placement.episode,
            "x-upturn-family": decision.family,
            "x-upturn-agent-version": self.agent_version,
            "x-upturn-propensity": f"{decision.propensity:.6g}",
            "x-upturn-policy-snapshot": decision.policy_snapshot,
        }

    async def open(self, stack: AsyncExitStack) -> None:
        """Opens the first upstream that answers; raises RequestError, with the call stored, if none does."""
        asyncio.get_running_loop().call_soon(self._prepare)  # runs when this waits for the first upstream
        error = UpstreamError("no upstream", kind="connect")
        for version in self._service.upstreams_of(self.decided):
            self.agent_version = version
            started = perf_counter()
            try:
                upstream = self._service.upstream(version)
                self._exchange = await stack.enter_async_context(upstream.open(self._call(version)))
            except LookupError as exc:
                error = UpstreamError(str(exc), kind="connect")
            except UpstreamError as exc:
                error = exc
            else:
                return
            finally:
                self.upstream_seconds += perf_counter() - started
            if error.is_fault_of_request:
                break
            self._attempted.append(version)
        self.agent_version = self._attempted.pop() if self._attempted else self.agent_version
        await self._store("failed", CallOutcome(failure=str(error)))
        raise error.as_request_error() from error

    def _prepare(self) -> None:
        """Makes a part of what is stored at the call's end."""
        with suppress(RecordError, StoreError):  # raised again when it is stored
            self._rows = self._made_rows()

    def _made_rows(self) -> CallRows:
        decision = self._service.border.stored(self.decided.decision, tenant=self._tenant)
        return call_rows(decision, self.decided.arrival.words, self.decided.placement)

    async def embed(self) -> bytes:
        """The answer to a request for embeddings; raises RequestError, with the call stored, if it fails."""
        try:
            forwarded = await self._service.upstream(self.agent_version).embed(self.decided.arrival.body)
        except (LookupError, UpstreamError) as exc:
            error = exc if isinstance(exc, UpstreamError) else UpstreamError(str(exc), kind="connect")
            await self._store("failed", CallOutcome(failure=str(error)))
            raise error.as_request_error() from exc
        await self._store("answered", CallOutcome(usage=TokenUsage(forwarded.input_tokens)))
        return forwarded.content

    def _call(self, version: str) -> UpstreamCall:
        arrival, answer_id = self.decided.arrival, self.decided.decision.id
        headers = {**arrival.headers, **arrival.trace(self)}
        call = UpstreamCall(
            arrival.body, arrival.request, arrival.dialect, headers, answer_id, arrival.sender, self._hedge
        )
        earlier = self.decided.placement.extends
        if (
            earlier is not None
            and earlier.agent_version != version
            and has_signed_thought(arrival.request.messages)
        ):
            self._changes.append("thoughts of another model")
            return call.without_reasoning()
        return call

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The answer in the client's dialect. Before the part that ends it is returned, the call is durable."""
        assert self._exchange is not None, "open comes first"
        waiting = perf_counter()
        async for chunk in self._exchange.chunks():
            self.upstream_seconds += perf_counter() - waiting
            if chunk.is_end and not self.is_stored:
                await self._store_end(self._exchange.outcome)
            yield chunk
            waiting = perf_counter()
        if not self.is_stored:
            await self._store_end(self._exchange.outcome)

    async def _store_end(self, outcome: CallOutcome) -> None:
        await self._store("answered" if outcome.answer is not None and not outcome.failure else "failed", outcome)

    def store_cancelled(self) -> None:
        """Stores the call as cancelled, in the background."""
        outcome = self._exchange.outcome if self._exchange is not None else CallOutcome()
        outcome = replace(outcome, failure="the client left before the answer's end")
        stored = outcome.answer and self._service.words.of_answer(outcome.answer, self._tenant)
        records = self._records("cancelled", outcome, stored)
        self._service.log.store_soon(records)

    async def _store(self, status: CallStatus, outcome: CallOutcome) -> None:
        stored = await self._service.words.answered(outcome.answer, self._tenant)
        await self._service.log.store(self._records(status, outcome, stored))

    def _records(
        self, status: CallStatus, outcome: CallOutcome, stored: ModelAnswer | None
    ) -> tuple[ReadyRow, Call, CallContent]:
        """``stored``: the answer as it is stored."""
        answer = outcome.answer
        is_complete = status == "answered"
        tried = Tried(
            self.agent_version,
            tuple(self._attempted),
            tuple(self._changes),
            self._hedge,
            self._service.price(self.agent_version),
            self._service.remember(self.decided, self.agent_version, answer, stored)
            if is_complete and answer is not None and stored is not None
            else "",
        )
        call = call_record(self.decided, status, outcome, tried)
        call = self._service.border.stored(call, tenant=self._tenant)
        self.record = call
        self._account.settle_call(call)
        rows = self._rows or self._made_rows()
        is_as_it_was = self.decided.arrival.stored is None and stored is answer
        tokens = outcome.tokens if is_as_it_was else None
        return rows.decision, call, call_content(call, rows, stored, tokens)
