"""Continuous batching over whoever awaits, with each session's cache kept across its turns.

One round: wait until no more requests arrive, admit waiting requests in their written order (reusing the session's
cache, or copying what another slot already computed), prefill what is new, then decode all live slots together for
a few steps. Everything runs on the event loop's thread and depends on the requests only, never on the clock: the
same requests give the same tokens.

Not covered: models with sliding windows, recurrent layers or encoder inputs (refused), and weights that change
while requests run (refused).
"""

import asyncio
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedModel

from upturn.errors import ModelError
from upturn.models.engine.sampler import sample
from upturn.models.engine.slots import SlotModel
from upturn.models.engine.table import Counters, Ints, SlotTable
from upturn.models.engine.weights import weights_hash
from upturn.models.model import FinishReason, Generation, GenerationRequest

DRAIN_ROUNDS = 3
"""Passes of the event loop without a new request before a batch is composed: a finished request's agent needs one
to step its environment and ask again; nested tasks (an agent that gathers) need a few more."""
ADMIT_STEPS = 4
"""Decoding steps between two admissions while calls are live: each prefill costs about as much as one step, so
requests that come close after each other share one."""
PREFILL_TOKENS = 4096
"""Of one forward pass, padding included: bounds the memory of the mask and of the activations."""
SMALL_PREFILL = 256
"""Tokens, padding included, up to which one pass costs less than two."""
MIN_SHARED = 8
"""Copying a shorter beginning from another slot costs more than computing it."""
TOLERANCE = 1e-3
"""Largest |Δ logit| between cached and plain float32 forward that construction accepts; other types: 100 times."""


@dataclass(eq=False)
class _Call:
    request: GenerationRequest
    prompt: Ints
    budget: int
    """Tokens it may write: the request's, or what the slot has room for."""
    future: asyncio.Future[Generation]
    stop_ids: frozenset[int]
    uniforms: list[float]
    slot: int = -1
    written: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def place(self) -> tuple[tuple[int, int], str]:
        return self.request.order, self.request.session


class LocalEngine:
    """A ``Model`` in this process. The caller sets torch's threads; one engine serves one event loop at a time."""

    def __init__(self, model: PreTrainedModel, *, slots: int = 64, max_length: int = 1024) -> None:
        """``slots``: sessions cached at the same time; ``max_length``: the longest context in tokens.

        The cache takes slots · max_length · layers · 2 · (key-value heads · head size) numbers. Raises ModelError
        for models that it cannot serve exactly, after comparing one small forward pass with the model's own.
        """
        if slots < 1 or max_length < 2:
            raise ValueError(
                f"slots must be at least 1 and max_length at least 2, got {slots!r} and {max_length!r}"
            )
        self._model = model
        self._max_length = max_length
        self._table = SlotTable(slots, max_length)
        self._slots = SlotModel(model, slots, max_length)
        self._last_S: Ints = np.zeros(slots, dtype=np.int64)
        self._waiting: list[_Call] = []
        self._live: dict[int, _Call] = {}
        self._runner: asyncio.Task[None] | None = None
        self.counters = Counters()
        self.refresh()
        self._verify()

    @property
    def version(self) -> str:
        """Hash of the weights."""
        return self._version

    def refresh(self) -> None:
        """To be called after the weights changed: forgets all caches and takes the new hash."""
        if self._live or self._waiting:
            raise ModelError("weights changed while requests run; let all attempts finish before refresh()")
        self._forget()
        self._version = weights_hash(self._model)

    async def generate(self, request: GenerationRequest) -> Generation:
        """The continuation. A context without room for one more token gives no tokens, with reason ``length``."""
        if not request.prompt_ids or request.max_tokens < 1:
            raise ModelError(
                f"a request needs a prompt and max_tokens >= 1, got {len(request.prompt_ids)} prompt tokens "
                f"and max_tokens {request.max_tokens!r}"
            )
        budget = min(request.max_tokens, self._max_length - len(request.prompt_ids))
        if budget < 1:
            return Generation((), (), "length", self._version)
        call = _Call(
            request=request,
            prompt=np.array(request.prompt_ids, dtype=np.int64),
            budget=budget,
            future=asyncio.get_running_loop().create_future(),
            stop_ids=frozenset(request.stop_ids),
            uniforms=np.random.Generator(np.random.PCG64(request.seed)).random(budget).tolist(),
        )
        if self._runner is None or self._runner.done() or self._runner.get_loop() is not call.future.get_loop():
            self._waiting, self._live = [], {}  # what an event loop that ended left behind
            self._runner = asyncio.create_task(self._run())
        self._waiting.append(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            self._drop(call)
            raise

    def release(self, session: str) -> None:
        """Frees the session's slot. Its tokens stay for others to share until the slot is needed."""
        self._table.release(session)

    async def _run(self) -> None:
        was_training = self._model.training
        self._model.train(False)
        try:
            while self._waiting or self._live:
                await self._drain()
                with torch.inference_mode():
                    self._admit()
                for _ in range(ADMIT_STEPS):
                    if not self._live:
                        break
                    with torch.inference_mode():
                        self._decode()
                    await asyncio.sleep(0)
        except Exception as exc:  # noqa: BLE001 — every request learns of it; the engine starts afresh
            self._fail(exc)
        finally:
            self._model.train(was_training)

    async def _drain(self) -> None:
        count = -1
        while count != len(self._waiting):
            count = len(self._waiting)
            for _ in range(DRAIN_ROUNDS):
                await asyncio.sleep(0)

    def _admit(self) -> None:
        self._waiting.sort(key=lambda call: call.place)
        kept = set(self._live)
        kept.update(
            slot for call in self._waiting if (slot := self._table.slot_of(call.request.session)) is not None
        )
        admitted: list[_Call] = []
        refused: list[_Call] = []
        for call in self._waiting:
            (admitted if self._seat(call, kept) else refused).append(call)
        self._waiting = refused
        leaders: dict[bytes, list[_Call]] = {}
        for call in admitted:
            leaders.setdefault(call.prompt.tobytes(), []).append(call)
        for batch in self._batches([calls[0] for calls in leaders.values()]):
            self._prefill(batch, leaders)

    def _seat(self, call: _Call, kept: set[int]) -> bool:
        """Gives the call a slot and the longest cached beginning of its prompt; False when no slot is to be had."""
        table = self._table
        slot = table.slot_of(call.request.session)
        if slot is None:
            claimed = table.claim(call.request.session, kept)
            if claimed is None:
                return False
            slot, is_evicted = claimed
            self.counters.evictions += is_evicted
        elif slot in self._live:
            return False  # two calls of one session at the same time: the second waits for the first
        kept.add(slot)
        call.slot = slot
        self._live[slot] = call
        table.touch(slot)
        # The last token of the prompt is always computed: its logits are needed.
        known = call.prompt[:-1]
        own = table.own_prefix(slot, known)
        best = table.best_prefix(known) if len(known) - own >= MIN_SHARED else None
        if best is not None and best.length >= own + MIN_SHARED:
            self._slots.cache.copy(best.slot, [slot], best.length)
            self.counters.shared_tokens += best.length
            own = best.length
        else:
            self.counters.reused_tokens += own
        table.hold(slot, call.prompt[:own])
        return True

    def _batches(self, calls: list[_Call]) -> list[list[_Call]]:
        """The calls by new length, split where padding would double the work or a pass would grow too large."""
        new = {id(call): len(call.prompt) - int(self._table.lengths_S[call.slot]) for call in calls}
        batches: list[list[_Call]] = []
        real = 0
        for call in sorted(calls, key=lambda each: (new[id(each)], each.place)):
            length = new[id(call)]
            padded = length * (len(batches[-1]) + 1) if batches else 0
            if batches and padded <= min(max(2 * (real + length), SMALL_PREFILL), PREFILL_TOKENS):
                batches[-1].append(call)
                real += length
            else:
                batches.append([call])
                real = length
        return batches

    def _prefill(self, batch: list[_Call], groups: dict[bytes, list[_Call]]) -> None:
        table = self._table
        rows_B = np.array([call.slot for call in batch])
        starts_B = table.lengths_S[rows_B]
        counts_B = np.array([len(call.prompt) for call in batch]) - starts_B
        ids_BL = np.zeros((len(batch), int(counts_B.max())), dtype=np.int64)
        for row, call in enumerate(batch):
            ids_BL[row, : counts_B[row]] = call.prompt[starts_B[row] :]
        logits_BV = self._slots.logits(ids_BL, rows_B, starts_B, counts_B)
        self.counters.forwards += 1
        self.counters.prefilled_tokens += int(counts_B.sum())
        calls: list[_Call] = []
        sources: list[int] = []
        for row, leader in enumerate(batch):
            group = groups[leader.prompt.tobytes()]
            table.hold(leader.slot, leader.prompt)
            self._share(leader, [call for call in group if call is not leader])
            calls += group
            sources += [row] * len(group)
        self._write(calls, logits_BV[torch.tensor(sources, device=logits_BV.device)])

    def _share(self, leader: _Call, others: list[_Call]) -> None:
        """Gives calls with the same prompt what was computed for the leader."""
        if not others:
            return
        length = len(leader.prompt)
        self._slots.cache.copy(leader.slot, [call.slot for call in others], length)
        for call in others:
            self.counters.shared_tokens += length - int(self._table.lengths_S[call.slot])
            self._table.hold(call.slot, call.prompt)

    def _decode(self) -> None:
        """One token for every live slot."""
        table = self._table
        live = np.array(sorted(self._live))
        count = int(live[-1]) + 1
        if 2 * len(live) > count:  # dead rows among the leading slots cost less than copying the live ones
            logits_BV = self._slots.decode(self._last_S[:count], table.lengths_S[:count], live)
        else:
            ones = np.ones_like(live)
            logits_BV = self._slots.logits(self._last_S[live][:, None], live, table.lengths_S[live], ones)
        self.counters.forwards += 1
        table.ids_SC[live, table.lengths_S[live]] = self._last_S[live]
        table.lengths_S[live] += 1
        self._write([self._live[slot] for slot in live.tolist()], logits_BV)

    def _write(self, calls: list[_Call], logits_BV: torch.Tensor) -> None:
        """Samples a token for each call, and finishes those that are done."""
        temperatures = np.array([call.request.temperature for call in calls])
        uniforms = np.array([call.uniforms[len(call.written)] for call in calls])
        ids_B, logprobs_B = sample(logits_BV, temperatures, uniforms)
        self._last_S[[call.slot for call in calls]] = ids_B
        self.counters.written_tokens += len(calls)
        for call, token, logprob in zip(calls, ids_B.tolist(), logprobs_B.tolist(), strict=True):
            call.written.append(token)
            call.logprobs.append(logprob)
            if token in call.stop_ids or len(call.written) == call.budget:
                self._finish(call, is_stopped=token in call.stop_ids)

    def _finish(self, call: _Call, *, is_stopped: bool) -> None:
        del self._live[call.slot]
        self._table.touch(call.slot)
        if not call.future.done():
            reason: FinishReason = "stop" if is_stopped else "length"
            call.future.set_result(Generation(tuple(call.written), tuple(call.logprobs), reason, self._version))

    def _drop(self, call: _Call) -> None:
        self._waiting = [other for other in self._waiting if other is not call]
        if self._live.get(call.slot) is call:
            del self._live[call.slot]

    def _fail(self, exc: Exception) -> None:
        failed = [*self._waiting, *self._live.values()]
        self._waiting, self._live = [], {}
        self._forget()
        for call in failed:
            if not call.future.done():
                error = ModelError(f"the local engine failed: {type(exc).__name__}: {exc}")
                error.__cause__ = exc
                call.future.set_exception(error)

    def _forget(self) -> None:
        self._table.clear()
        self._slots.clear()

    @torch.inference_mode()
    def _verify(self) -> None:
        """Compares prefill and decode with the model's own forward pass; raises ModelError when they differ."""
        length = min(6, self._max_length)
        ids = np.arange(length)
        was_training = self._model.training
        self._model.train(False)
        plain = self._model(input_ids=torch.from_numpy(ids[None]).to(self._model.device), use_cache=False).logits[0]
        zero, first = np.array([0]), length - 1
        before = self._slots.logits(ids[None, :first], zero, zero, np.array([first]))[0]
        after = self._slots.decode(ids[first:], np.array([first]), zero)[0]
        self._model.train(was_training)
        self._forget()
        gap = float((torch.stack([before, after]) - plain[-2:]).abs().max())
        allowed = TOLERANCE if plain.dtype == torch.float32 else 100 * TOLERANCE
        if not gap <= allowed:
            raise ModelError(
                f"cached and plain forward of {type(self._model).__name__} differ by {gap:.2g} (allowed "
                f"{allowed:g}); LocalEngine cannot serve this model: serve it behind an OpenAI-compatible endpoint"
            )
