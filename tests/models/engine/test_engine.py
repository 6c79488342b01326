import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest
from upturn.models.engine import Forward, LocalEngine, weights_hash

ResultT = TypeVar("ResultT")
SIZES: dict[str, int] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


@cache
def model(kind: str = "qwen2") -> PreTrainedModel:
    torch.manual_seed(1)
    sizes = cast(Any, SIZES)
    if kind == "llama":
        built: PreTrainedModel = LlamaForCausalLM(LlamaConfig(**sizes))
    elif kind == "qwen3":
        built = Qwen3ForCausalLM(Qwen3Config(head_dim=8, **sizes))
    else:
        built = Qwen2ForCausalLM(Qwen2Config(**sizes))
    with torch.no_grad():  # far from uniform, so that a wrong position or mask changes the maximum
        for parameter in built.parameters():
            parameter.mul_(3.0)
    return built.requires_grad_(False)


FORWARDS: list[Forward] = ["direct", "modules"]


@pytest.fixture(autouse=True, params=FORWARDS)
def forward(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Forward:
    """Everything here holds for both forward passes."""
    chosen: Forward = request.param
    monkeypatch.setitem(CHOSEN, "forward", chosen)
    return chosen


CHOSEN: dict[str, Forward] = {}


def engine(slots: int = 8, max_length: int = 100, kind: str = "qwen2") -> LocalEngine:
    return LocalEngine(model(kind), slots=slots, max_length=max_length, **CHOSEN)


def prompt(seed: int, length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(0, SIZES["vocab_size"], length).tolist())


def request(ids: Sequence[int], index: int, **changes: Any) -> GenerationRequest:
    base = GenerationRequest(
        prompt_ids=tuple(ids),
        max_tokens=10,
        stop_ids=(),
        temperature=1.0,
        session=f"s{index}",
        order=(index, 0),
        seed=index,
    )
    return replace(base, **changes)


def run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    return asyncio.run(work)


async def together(engine: LocalEngine, requests: Sequence[GenerationRequest]) -> list[Generation]:
    return list(await asyncio.gather(*(engine.generate(each) for each in requests)))


def greedy_by_transformers(kind: str, ids: Sequence[int], count: int) -> tuple[int, ...]:
    inputs = torch.tensor([list(ids)])
    output = cast(Any, model(kind)).generate(
        inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=count, do_sample=False,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return tuple(output[0, len(ids) :].tolist())


def dense_logprobs(ids: Sequence[int], count: int) -> torch.Tensor:
    logits = model()(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    logprobs = torch.log_softmax(logits[-count - 1 : -1], dim=-1)
    return logprobs.gather(1, torch.tensor(list(ids[-count:]))[:, None])[:, 0]


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_greedy_output_equals_transformers_for_unequal_lengths_and_across_turns(kind: str) -> None:
    served = engine(kind=kind)
    prompts = [prompt(length, length) for length in (3, 17, 5, 30, 9)]

    async def two_turns(index: int) -> None:
        ids = prompts[index]
        for turn in range(2):
            count = 6 + index + turn
            written = await served.generate(request(ids, index, temperature=0.0, max_tokens=count))
            assert written.token_ids == greedy_by_transformers(kind, ids, count)
            assert (written.finish_reason, written.model_version) == ("length", weights_hash(model(kind)))
            ids = ids + written.token_ids + prompt(99 + index, 4 + index)

    async def all_sessions() -> None:
        await asyncio.gather(*(two_turns(index) for index in range(len(prompts))))

    run(all_sessions())


def test_logprobs_equal_a_dense_forward() -> None:
    served = engine()
    requests = [request(prompt(k, 4 + 5 * k), k, temperature=(0.0, 1.0, 2.5)[k % 3]) for k in range(6)]
    for each, written in zip(requests, run(together(served, requests)), strict=True):
        expected = dense_logprobs(each.prompt_ids + written.token_ids, 10)
        gap = (expected - torch.tensor(written.logprobs)).abs().max()
        assert gap < 1e-5, f"log-probs are off by {gap}"  # reached: 1.5e-6


def test_tokens_do_not_depend_on_arrival_order_or_batch_composition() -> None:
    requests = [request(prompt(k, 5 + k), k) for k in range(6)]
    alone = [run(together(engine(), [each]))[0].token_ids for each in requests]
    forwards = [each.token_ids for each in run(together(engine(), requests))]
    backwards = [each.token_ids for each in run(together(engine(), requests[::-1]))][::-1]
    few_slots = [each.token_ids for each in run(together(engine(slots=2), requests))]
    assert alone == forwards == backwards == few_slots
    assert len(set(alone)) == 6


def test_the_same_arrivals_give_bit_equal_logprobs() -> None:
    requests = [request(prompt(k, 5 + k), k) for k in range(6)]
    assert run(together(engine(), requests)) == run(together(engine(), requests[::-1]))[::-1]


def test_different_seeds_give_different_tokens_and_a_stop_token_ends_the_output() -> None:
    ids = prompt(0, 5)
    first, second = run(together(engine(), [request(ids, 0, seed=1), request(ids, 1, seed=2)]))
    assert first.token_ids != second.token_ids
    stop = first.token_ids[4]
    (cut,) = run(together(engine(), [request(ids, 0, seed=1, stop_ids=(stop,))]))
    assert cut.token_ids == first.token_ids[: first.token_ids.index(stop) + 1]
    assert (cut.finish_reason, first.finish_reason) == ("stop", "length")


def test_a_second_turn_computes_only_the_new_tokens() -> None:
    served = engine()

    async def turns() -> None:
        ids = prompt(0, 20)
        written = await served.generate(request(ids, 0))
        assert served.counters.prefilled_tokens == 20
        ids = ids + written.token_ids + prompt(1, 7)
        await served.generate(request(ids, 0))
        # The last written token was never fed back, so it is new too.
        assert served.counters.prefilled_tokens == 20 + 1 + 7
        assert served.counters.reused_tokens == 20 + 9

    run(turns())


def test_a_changed_history_is_recomputed_from_the_first_difference() -> None:
    served = engine()

    async def turns() -> tuple[Generation, Generation]:
        ids = prompt(0, 20)
        await served.generate(request(ids, 0))
        changed = (*ids[:12], (ids[12] + 1) % 61, *ids[13:])
        again = await served.generate(request(changed, 0, seed=5))
        assert served.counters.prefilled_tokens == 20 + 8
        return again, await engine().generate(request(changed, 0, seed=5))

    again, fresh = run(turns())
    assert again.token_ids == fresh.token_ids


def test_rollouts_of_a_task_share_the_prefill_of_their_prompt() -> None:
    ids = prompt(0, 24)
    requests = [request(ids, k, order=(0, k)) for k in range(6)]
    served = engine()
    shared = run(together(served, requests))
    assert (served.counters.prefilled_tokens, served.counters.shared_tokens) == (24, 5 * 24)
    assert [each.token_ids for each in shared] == [run(together(engine(), [r]))[0].token_ids for r in requests]


def test_a_later_rollout_copies_a_cached_prefix() -> None:
    served = engine(slots=2)
    ids = prompt(0, 24)

    async def one_after_the_other() -> Generation:
        await served.generate(request(ids, 0))
        return await served.generate(request((*ids, 3, 4), 1))

    late = run(one_after_the_other())
    assert (served.counters.prefilled_tokens, served.counters.shared_tokens) == (24 + 2, 24)
    assert late.token_ids == run(together(engine(), [request((*ids, 3, 4), 1)]))[0].token_ids


def test_more_sessions_than_slots_evict_the_least_recently_used_and_stay_correct() -> None:
    served, roomy = engine(slots=2), engine(slots=8)

    async def sessions(target: LocalEngine) -> list[tuple[int, ...]]:
        histories = [prompt(k, 10) for k in range(4)]
        for turn in range(3):
            for k in range(4):
                written = await target.generate(request(histories[k], k, seed=turn))
                histories[k] += written.token_ids + prompt(turn, 3)
        return histories

    assert run(sessions(served)) == run(sessions(roomy))
    assert served.counters.evictions == 10  # 12 calls, all but the first two take another session's slot
    assert roomy.counters.evictions == 0
    assert roomy.counters.prefilled_tokens == 4 * (10 + 2 * (1 + 3))


def test_a_released_slot_is_used_again_without_eviction() -> None:
    served = engine(slots=1)
    for index in range(3):
        run(together(served, [request(prompt(index, 6), index)]))
        served.release(f"s{index}")
    served.release("never seen")
    assert served.counters.evictions == 0


def test_contexts_end_at_max_length() -> None:
    served = engine(max_length=30)
    full, over, near = run(
        together(served, [request(prompt(0, 30), 0), request(prompt(1, 40), 1), request(prompt(2, 26), 2)])
    )
    assert (full.token_ids, full.finish_reason) == (over.token_ids, over.finish_reason) == ((), "length")
    assert (len(near.token_ids), near.finish_reason) == (4, "length")
    assert near.token_ids == run(together(engine(), [request(prompt(2, 26), 2)]))[0].token_ids[:4]


def test_two_calls_of_one_session_take_turns() -> None:
    served = engine()
    first, second = run(together(served, [request(prompt(0, 5), 0), request(prompt(1, 9), 0, seed=3)]))
    assert first.token_ids == run(together(engine(), [request(prompt(0, 5), 0)]))[0].token_ids
    assert second.token_ids == run(together(engine(), [request(prompt(1, 9), 0, seed=3)]))[0].token_ids


def test_a_cancelled_call_does_not_affect_others() -> None:
    served = engine()

    async def cancel_one() -> Generation:
        doomed = asyncio.create_task(served.generate(request(prompt(0, 5), 0, max_tokens=90)))
        other = asyncio.create_task(served.generate(request(prompt(1, 5), 1, max_tokens=20)))
        while served.counters.written_tokens < 4:
            await asyncio.sleep(0)
        doomed.cancel()
        return await other

    other = run(cancel_one())
    assert other.token_ids == run(together(engine(), [request(prompt(1, 5), 1, max_tokens=20)]))[0].token_ids
    assert served.counters.written_tokens < 40


def test_an_engine_works_after_an_event_loop_was_torn_down() -> None:
    served = engine()

    async def abandoned() -> None:
        task = asyncio.create_task(served.generate(request(prompt(0, 5), 0, max_tokens=90)))
        while served.counters.written_tokens < 4:
            await asyncio.sleep(0)
        del task

    run(abandoned())
    assert len(run(together(served, [request(prompt(1, 5), 1)]))[0].token_ids) == 10


def test_refresh_clears_caches_and_takes_the_new_hash() -> None:
    mine = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    served = LocalEngine(mine, slots=2, max_length=50, **CHOSEN)
    before = served.version
    run(together(served, [request(prompt(0, 8), 0)]))
    mine.lm_head.weight.mul_(-1.0)
    served.refresh()
    assert served.version == weights_hash(mine) != before
    again = run(together(served, [request(prompt(0, 8), 0, temperature=0.0)]))[0]
    assert served.counters.prefilled_tokens == 16
    fresh = LocalEngine(mine, slots=2, max_length=50, **CHOSEN)
    assert again == run(together(fresh, [request(prompt(0, 8), 0, temperature=0.0)]))[0]


def test_refresh_during_requests_is_refused() -> None:
    served = engine()

    async def refresh_too_early() -> None:
        task = asyncio.create_task(served.generate(request(prompt(0, 5), 0)))
        await asyncio.sleep(0)
        with pytest.raises(ModelError, match="weights changed while requests run"):
            served.refresh()
        await task

    run(refresh_too_early())


def test_a_broken_forward_reaches_every_caller_and_the_engine_recovers() -> None:
    served = engine()

    async def bad() -> list[Any]:
        calls = [request((5, 9999), 0), request((5, 6), 1)]
        return await asyncio.gather(*(served.generate(call) for call in calls), return_exceptions=True)

    for error in run(bad()):
        assert isinstance(error, ModelError)
        assert "the local engine failed: IndexError" in str(error)
    assert len(run(together(served, [request(prompt(0, 5), 0)]))[0].token_ids) == 10


def test_unusable_requests_and_models_are_refused_with_the_reason() -> None:
    with pytest.raises(ModelError, match="got 0 prompt tokens"):
        run(together(engine(), [request((), 0)]))
    with pytest.raises(ValueError, match="slots must be at least 1"):
        engine(slots=0)
    sliding = Qwen2Config(use_sliding_window=True, sliding_window=4, max_window_layers=0, **cast(Any, SIZES))
    with pytest.raises(ModelError, match="full causal attention only"):
        LocalEngine(Qwen2ForCausalLM(sliding), slots=1, max_length=20, **CHOSEN)


def test_the_model_keeps_its_mode_and_attention() -> None:
    mine = Qwen2ForCausalLM(Qwen2Config(attention_dropout=0.5, **cast(Any, SIZES)))
    mine.set_attn_implementation("eager")
    mine.train()
    served = LocalEngine(mine, slots=2, max_length=50, **CHOSEN)
    first, second = (run(together(served, [request(prompt(0, 8), k, seed=0)]))[0] for k in range(2))
    assert first.token_ids == second.token_ids
    assert mine.training
    assert mine.config._attn_implementation == "eager"


def test_prefill_and_decoding_share_a_pass() -> None:
    served = engine()
    long = request(prompt(9, 40), 9, max_tokens=20)
    short = [request(prompt(k, length), k, max_tokens=1) for k, length in enumerate((3, 90, 4, 91, 5))]

    async def late() -> list[Generation]:
        first = asyncio.create_task(served.generate(long))
        while served.counters.written_tokens < 2:
            await asyncio.sleep(0)
        return [*await together(served, short), await first]

    found = [each.token_ids for each in run(late())]
    assert served.counters.forwards == 20
    assert found == [run(together(engine(), [each]))[0].token_ids for each in (*short, long)]


def test_long_prompts_take_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.models.engine.engine.PASS_TOKENS", 60)
    served = engine()
    requests = [request(prompt(k, 25 + k), k, max_tokens=2) for k in range(5)]
    found = [each.token_ids for each in run(together(served, requests))]
    assert served.counters.forwards == 3 + 1
    assert found == [run(together(engine(), [each]))[0].token_ids for each in requests]


def test_weights_that_changed_without_refresh_are_refused() -> None:
    mine = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    served = LocalEngine(mine, slots=2, max_length=50, **CHOSEN)
    mine.lm_head.weight.mul_(1.5)
    with pytest.raises(ModelError, match="weights changed without refresh"):
        run(together(served, [request(prompt(0, 8), 0)]))
    served.refresh()
    assert len(run(together(served, [request(prompt(0, 8), 0)]))[0].token_ids) == 10


def test_non_finite_weights_are_refused() -> None:
    mine = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    served = LocalEngine(mine, slots=2, max_length=50, **CHOSEN)
    mine.model.layers[0].mlp.up_proj.weight[3, 3] = torch.nan
    with pytest.raises(ModelError, match="differ by nan"):
        served.refresh()


def test_non_finite_logits_raise_and_leave_no_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    served = LocalEngine(mine, slots=2, max_length=50, **CHOSEN)
    mine.model.embed_tokens.weight[1] = torch.inf
    monkeypatch.setattr("upturn.models.engine.engine.verify", lambda *_: None)  # it would meet this id
    served.refresh()
    with pytest.raises(ModelError, match="logits are not finite"):
        run(together(served, [request((5, 1, 7), 0)]))
    again = run(together(served, [request((5, 6, 7), 0, temperature=0.0)]))[0]
    assert 1 not in again.token_ids
    assert all(math.isfinite(logprob) for logprob in again.logprobs)


def test_a_prefix_is_shared_while_its_source_decodes_and_after_release() -> None:
    served = engine(slots=4)
    ids = prompt(0, 40)

    async def staggered() -> list[Generation]:
        first = asyncio.create_task(served.generate(request(ids, 0, max_tokens=30)))
        while served.counters.written_tokens < 3:
            await asyncio.sleep(0)
        second = asyncio.create_task(served.generate(request((*ids[:33], 7, 8), 1, max_tokens=12)))
        while served.counters.written_tokens < 9:
            await asyncio.sleep(0)
        third = asyncio.create_task(served.generate(request((*ids[:20], 9), 2, max_tokens=5)))
        found = [await first, await second, await third]
        served.release("s0")
        return [*found, await served.generate(request((*ids, *found[0].token_ids[:10], 3), 3))]

    found = [each.token_ids for each in run(staggered())]
    # The fourth is given the slot that the first left, with what it holds.
    assert (served.counters.shared_tokens, served.counters.reused_tokens) == (33 + 20, 50)
    texts = [ids, (*ids[:33], 7, 8), (*ids[:20], 9), (*ids, *found[0][:10], 3)]
    counts = [30, 12, 5, 10]
    alone = [
        run(together(engine(), [request(text, k, max_tokens=count)]))[0].token_ids
        for k, (text, count) in enumerate(zip(texts, counts, strict=True))
    ]
    assert found == alone


def test_an_aborted_request_frees_its_slot_for_waiting_requests() -> None:
    # agent-lightning #589: aborted requests went on as orphans, and their slots were never given back.
    served = engine(slots=2)

    async def abort() -> list[Generation]:
        doomed = [asyncio.create_task(served.generate(request(prompt(k, 6), k, max_tokens=90))) for k in range(2)]
        waiting = [asyncio.create_task(served.generate(request(prompt(k, 6), k))) for k in range(2, 4)]
        while served.counters.written_tokens < 6:
            await asyncio.sleep(0)
        for k, task in enumerate(doomed):
            task.cancel()
            served.release(f"s{k}")
        return [await task for task in waiting]

    found = run(abort())
    assert [len(each.token_ids) for each in found] == [10, 10]
    assert served.counters.written_tokens <= 6 + 2 * 4 + 20  # nobody writes on for the aborted ones
    served.refresh()  # refused if anything were still running


def test_a_context_that_fills_up_mid_turn_is_truncated_with_every_forward_pass() -> None:
    # NeMo-RL #3851: two engines ended cut-off rollouts differently, so switching them changed the data.
    served = engine(max_length=40)

    async def turns() -> list[tuple[int, str]]:
        ids = prompt(3, 10)
        ends: list[tuple[int, str]] = []
        for turn in range(4):
            written = await served.generate(request(ids, 0, seed=turn, max_tokens=8))
            ends.append((len(written.token_ids), written.finish_reason))
            ids = ids + written.token_ids + prompt(turn, 3)
        return ends

    assert run(turns()) == [(8, "length"), (8, "length"), (8, "length"), (0, "length")]
    near = run(together(engine(max_length=40), [request(prompt(3, 37), 0, max_tokens=8)]))[0]
    assert (len(near.token_ids), near.finish_reason) == (3, "length")
