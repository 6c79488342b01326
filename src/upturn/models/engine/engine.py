"""Continuous batching over concurrent requests, with each session's cache kept across its turns.

One round: wait until no more requests arrive, assign slots to waiting requests in the order of ``request.order``
(reusing the session's cache, or a prefix cached in another slot), then take a few steps. A step is one pass of the
model: one more token for every live slot, together with all new prompt tokens. Everything runs on the event loop's
thread and depends on the requests only, never on the clock: the same requests give the same tokens. Between two
steps, rollouts with a finished request step their environments; none waits for the slowest request of a turn, nor
for a blocking agent or environment. Blocking ones send their next request at arbitrary times, so the requests that
share a pass vary, and log-probs then differ by rounding.

Not covered: models with encoder inputs, images among them, and weights that change while requests run, or without
``refresh`` (refused).
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PreTrainedModel

from upturn.errors import ModelError
from upturn.models.engine.backend import Block, Ints
from upturn.models.engine.batch import Continuation, LiveRows, Read, group_by_length, prefill_block
from upturn.models.engine.sampling import Grammars, on_device
from upturn.models.engine.table import Counters, SlotTable
from upturn.models.engine.verification import Forward, open_backend, verify
from upturn.models.engine.weights import weights_hash, weights_stamp
from upturn.models.model import FinishReason, Generation, GenerationRequest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DRAIN_ROUNDS = 3
"""Passes of the event loop without a new request before a batch is composed: the agent of a finished request needs
one to step its environment and send the next; nested tasks (an agent that gathers) need a few more."""
ADMIT_STEPS = 4
"""Steps between two admissions while requests are live: requests that arrive close together share a pass."""
PASS_TOKENS = 4096
"""New prompt tokens per pass: bounds the memory of its activations. A longer prompt gets a separate pass."""
MIN_SHARED = 8
"""Copying a shorter prefix from another slot costs more than computing it."""


@dataclass(eq=False)
class _Call:
    request: GenerationRequest
    prompt: Ints
    budget: int
    """Maximum output: the request's limit, or the room in the slot."""
    future: asyncio.Future[Generation]
    slot: int = -1

    @property
    def sort_key(self) -> tuple[tuple[int, int], str]:
        return self.request.order, self.request.session


class LocalEngine:
    """A ``Model`` in this process, for one event loop at a time. The caller sets torch's threads."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        slots: int = 64,
        max_length: int = 1024,
        forward: Forward | None = None,
        lag: int | None = None,
        tokenizer: "Tokenizer | None" = None,
    ) -> None:
        """``slots``: sessions cached at the same time; ``max_length``: the longest context in tokens.

        ``forward``: the backend; None = the direct one where its logits equal the model's, else the model's
        modules, else the model over its own cache, one sequence at a time (with a warning). ``lag``: steps after
        which the host reads sampled tokens (see ``LiveRows``); it changes no token; None = 0 on the CPU, 1
        elsewhere. ``tokenizer``: for stop strings and grammars; None = requests with any are refused. Raises
        ModelError for models that cannot be served exactly, after comparing small passes with the model's own.
        """
        if slots < 1 or max_length < 2:
            raise ValueError(
                f"slots must be at least 1 and max_length at least 2, got {slots!r} and {max_length!r}"
            )
        self._model = model
        self._max_length = max_length
        self._table = SlotTable(slots, max_length)
        if lag is None:
            lag = 0 if model.device.type == "cpu" else 1
        self._tokenizer = tokenizer
        decode = None if tokenizer is None else partial(tokenizer.decode, skip_special_tokens=False)
        config: Any = model.config.get_text_config(decoder=True)  # attributes differ between model families
        self._grammars = None if tokenizer is None else Grammars(tokenizer, config.vocab_size)
        self._rows = LiveRows(
            slots, max_length, device=model.device, lag=lag, decode=decode, grammars=self._grammars
        )
        self._waiting: list[_Call] = []
        self._live: dict[int, _Call] = {}
        self._runner: asyncio.Task[None] | None = None
        self.counters = Counters()
        self._backend, self.forward, self.forward_reason = open_backend(model, slots, max_length, forward)
        self._version, self._stamp = weights_hash(model), weights_stamp(model)
        self._updates = 1

    @property
    def version(self) -> str:
        """Hash of the weights."""
        return self._version

    def refresh(self) -> None:
        """Takes changed weights and their hash, and clears all caches; call it after every change.

        Raises ModelError while requests run, and when the engine's logits differ from the model's: they are
        compared on the first, second, fourth, eighth … change of weights.
        """
        if self._live or self._waiting:
            raise ModelError("weights changed while requests run; finish all rollouts before refresh()")
        self._table.clear()
        self._backend.clear()
        version, self._stamp = weights_hash(self._model), weights_stamp(self._model)
        if version == self._version:
            return
        self._version = version
        self._backend.refresh()
        if self._updates & (self._updates - 1) == 0:
            verify(self._backend, self._model, self._table.slots, self._max_length)
        self._updates += 1

    async def generate(self, request: GenerationRequest) -> Generation:
        """The continuation. A context without room for one more token gives no tokens, with reason ``length``."""
        if not request.prompt_ids or request.max_tokens < 1:
            raise ModelError(
                f"a request needs a prompt and max_tokens >= 1, got {len(request.prompt_ids)} prompt tokens "
                f"and max_tokens {request.max_tokens!r}"
            )
        if (request.sampling.stop or request.calls) and self._tokenizer is None:
            what = "calls_only" if request.calls else f"stop strings {list(request.sampling.stop)!r}"
            raise ModelError(
                f"{what} need the text of tokens: give LocalEngine the model's tokenizer, or use stop_ids"
            )
        if request.calls is not None:
            assert self._grammars is not None
            self._grammars.prepare(request.calls, request.stop_ids)
        budget = min(request.max_tokens, self._max_length - len(request.prompt_ids))
        if budget < 1:
            return Generation((), (), "length", self._version)
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        call = _Call(request, np.array(request.prompt_ids, dtype=np.int64), budget, future)
        if self._runner is None or self._runner.done() or self._runner.get_loop() is not future.get_loop():
            self._start()
        self._waiting.append(call)
        try:
            return await future
        except asyncio.CancelledError:
            self._cancel(call)
            raise

    def written(self, session: str) -> tuple[int, ...]:
        """The tokens that the session's call has so far; empty = none, or no call runs."""
        slot = self._table.slot_of(session)
        return () if slot is None or slot not in self._live else self._rows.written(slot).token_ids

    async def interrupt(self) -> None:
        """Ends all requests between two steps, with the tokens that they have so far."""
        ended = [(call, Continuation((), (), ())) for call in self._waiting]
        ended += [(call, self._rows.written(slot)) for slot, call in sorted(self._live.items())]
        self._waiting, self._live = [], {}
        self._rows.clear()
        for call, (token_ids, logprobs, sampling) in ended:
            if not call.future.done():
                call.future.set_result(Generation(token_ids, logprobs, "interrupted", self._version, sampling))

    def release(self, session: str) -> None:
        """Frees the session's slot. Its tokens remain available for sharing until the slot is reused."""
        self._table.release(session)

    def _start(self) -> None:
        self._waiting, self._live = [], {}  # drops the requests of an event loop that ended
        self._rows.clear()
        if weights_stamp(self._model) != self._stamp:
            raise ModelError("the weights changed without refresh(); call it after each change")
        self._runner = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting or self._live:
                await self._drain()
                with torch.inference_mode():
                    self._step(self._admit())
                await asyncio.sleep(0)
                for _ in range(ADMIT_STEPS - 1):
                    if not self._live:
                        break
                    with torch.inference_mode():
                        self._step([])
                    await asyncio.sleep(0)
        except Exception as exc:  # noqa: BLE001 — every request gets the error; the engine resets
            self._fail(exc)

    async def _drain(self) -> None:
        count = -1
        while count != len(self._waiting):
            count = len(self._waiting)
            for _ in range(DRAIN_ROUNDS):
                await asyncio.sleep(0)

    def _admit(self) -> list[list[_Call]]:
        """Assigns slots to waiting calls while there are any; calls with the same prompt form a group."""
        self._waiting.sort(key=lambda call: call.sort_key)
        reserved = set(self._live)
        reserved.update(
            slot for call in self._waiting if (slot := self._table.slot_of(call.request.session)) is not None
        )
        groups: dict[bytes, list[_Call]] = {}
        still_waiting: list[_Call] = []
        for call in self._waiting:
            if self._assign_slot(call, reserved):
                groups.setdefault(call.prompt.tobytes(), []).append(call)
            else:
                still_waiting.append(call)
        self._waiting = still_waiting
        for leader, *_ in groups.values():
            self._copy_prefix(leader)
        return list(groups.values())

    def _assign_slot(self, call: _Call, reserved: set[int]) -> bool:
        """Assigns a slot, which keeps the cached part of the prompt; False when no slot is free."""
        table = self._table
        slot = table.slot_of(call.request.session)
        if slot is None:
            claimed = table.claim(call.request.session, reserved)
            if claimed is None:
                return False
            slot, is_evicted = claimed
            self.counters.evictions += is_evicted
        elif slot in self._live:
            return False  # concurrent calls of one session run one after another
        reserved.add(slot)
        call.slot = slot
        self._live[slot] = call
        self._rows.start(slot, call.request, call.budget)
        table.touch(slot)
        # The last prompt token is always computed, because its logits are needed.
        cached = table.own_prefix(slot, call.prompt[:-1])
        self.counters.reused_tokens += cached
        table.hold(slot, call.prompt[:cached])
        self._backend.cut(slot, cached)
        return True

    def _copy_prefix(self, call: _Call) -> None:
        """Copies the prompt's prefix from another slot that caches much more of it than the call's own."""
        table, prompt = self._table, call.prompt[:-1]
        cached = int(table.lengths_S[call.slot])
        if 2 * cached >= len(prompt):
            return  # a continued session: only its last turn is new
        best = table.best_prefix(prompt, cached + MIN_SHARED)
        if best is not None:
            self._backend.copy(best.slot, [call.slot], best.length)
            table.hold(call.slot, prompt[: best.length])
            self.counters.reused_tokens -= cached
            self.counters.shared_tokens += best.length

    def _step(self, groups: Sequence[Sequence[_Call]]) -> None:
        """One more token for every live slot: slots already decoding, and the groups after their prompts."""
        decoding = self._rows.decoding()
        for batch in self._passes(groups):
            self._pass(decoding, batch)
            decoding = decoding[:0]

    def _passes(self, groups: Sequence[Sequence[_Call]]) -> Iterator[list[list[Sequence[_Call]]]]:
        """The groups in blocks of similar length, with as many blocks as fit in a pass; at least one pass."""
        table = self._table

        def new(group: Sequence[_Call]) -> int:
            return len(group[0].prompt) - int(table.lengths_S[group[0].slot])

        blocks: list[list[Sequence[_Call]]] = []
        tokens = 0
        for block in group_by_length(groups, new, PASS_TOKENS):
            more = sum(map(new, block))
            if blocks and tokens + more > PASS_TOKENS:
                yield blocks
                blocks, tokens = [], 0
            blocks.append(block)
            tokens += more
        yield blocks

    def _pass(self, decoding: Ints, prefills: Sequence[Sequence[Sequence[_Call]]]) -> None:
        table = self._table
        blocks: list[Block] = []
        if len(decoding):
            starts_B, last_B = self._rows.last_positions(decoding), self._rows.last_ids(decoding)
            blocks.append(Block(decoding, starts_B, np.ones_like(decoding), last_B))
        for groups in prefills:
            slots_B = np.array([group[0].slot for group in groups])
            blocks.append(prefill_block(slots_B, table.lengths_S[slots_B], [group[0].prompt for group in groups]))
        if not blocks:
            self._take(self._rows.flush())
            return
        logits_BV = self._backend.forward(blocks)
        self.counters.forwards += 1
        self.counters.prefilled_tokens += sum(len(block.ids) for block in blocks) - len(decoding)
        slots, sources = decoding.tolist(), list(range(len(decoding)))
        for row, group in enumerate((group for groups in prefills for group in groups), start=len(decoding)):
            self._share(group)
            slots += [call.slot for call in group]
            sources += [row] * len(group)
        if len(sources) > len(logits_BV):
            logits_BV = logits_BV[on_device(np.array(sources), logits_BV.device)]
        self._take(self._rows.write(np.array(slots), logits_BV))

    def _take(self, reads: Sequence[Read]) -> None:
        """Records what was read of the sampled tokens, and finishes calls."""
        for slots_R, cached_R, all_finished in reads:
            self.counters.written_tokens += len(slots_R)
            is_cached_R = cached_R >= 0
            self._table.extend(slots_R[is_cached_R], cached_R[is_cached_R])
            for slot, is_stopped in all_finished:
                if self._rows.unread(slot):
                    self._backend.cut(slot, int(self._table.lengths_S[slot]))
                self._finish(slot, is_stopped=is_stopped)

    def _share(self, group: Sequence[_Call]) -> None:
        """Copies the prompt computed for the first call of the group to the others."""
        leader, *others = group
        self._table.hold(leader.slot, leader.prompt)
        if not others:
            return
        length = len(leader.prompt)
        self._backend.copy(leader.slot, [call.slot for call in others], length)
        for call in others:
            self.counters.shared_tokens += length - int(self._table.lengths_S[call.slot])
            self._table.hold(call.slot, call.prompt)

    def _finish(self, slot: int, *, is_stopped: bool) -> None:
        call = self._live.pop(slot)
        self._table.touch(slot)
        if not call.future.done():
            reason: FinishReason = "stop" if is_stopped else "length"
            output = self._rows.written(slot)
            call.future.set_result(
                Generation(output.token_ids, output.logprobs, reason, self._version, output.sampling_logprobs)
            )

    def _cancel(self, call: _Call) -> None:
        self._waiting = [other for other in self._waiting if other is not call]
        if self._live.get(call.slot) is call:
            del self._live[call.slot]
            self._rows.stop(call.slot)

    def _fail(self, exc: Exception) -> None:
        failed = [*self._waiting, *self._live.values()]
        self._waiting, self._live = [], {}
        self._rows.clear()
        self._table.clear()
        with torch.inference_mode():
            self._backend.wipe()
        for call in failed:
            if not call.future.done():
                error = ModelError(f"the local engine failed: {type(exc).__name__}: {exc}")
                error.__cause__ = exc
                call.future.set_exception(error)
