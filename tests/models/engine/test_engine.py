import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from upturn.config import SamplingSettings
from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest
from upturn.models.engine import Forward, LocalEngine, weights_hash
from upturn.models.engine.sampling.reshape import reshape

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
    """Runs every test with both forward passes."""
    requested: Forward = request.param
    monkeypatch.setitem(ENGINE_OPTIONS, "forward", requested)
    return requested


ENGINE_OPTIONS: dict[str, Any] = {}


def engine(slots: int = 8, max_length: int = 100, kind: str = "qwen2") -> LocalEngine:
    return LocalEngine(model(kind), slots=slots, max_length=max_length, **ENGINE_OPTIONS)


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


async def generate_all(engine: LocalEngine, requests: Sequence[GenerationRequest]) -> list[Generation]:
    return list(await asyncio.gather(*(engine.generate(request) for request in requests)))


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
    local = engine(kind=kind)
    prompts = [prompt(length, length) for length in (3, 17, 5, 30, 9)]

    async def two_turns(index: int) -> None:
        ids = prompts[index]
        for turn in range(2):
            count = 6 + index + turn
            written = await local.generate(request(ids, index, temperature=0.0, max_tokens=count))
            assert written.token_ids == greedy_by_transformers(kind, ids, count)
            assert (written.finish_reason, written.model_version) == ("length", weights_hash(model(kind)))
            ids = ids + written.token_ids + prompt(99 + index, 4 + index)

    async def all_sessions() -> None:
        await asyncio.gather(*(two_turns(index) for index in range(len(prompts))))

    run(all_sessions())


def test_logprobs_equal_a_dense_forward() -> None:
    local = engine()
    requests = [request(prompt(k, 4 + 5 * k), k, temperature=(0.0, 1.0, 2.5)[k % 3]) for k in range(6)]
    for call, written in zip(requests, run(generate_all(local, requests)), strict=True):
        expected = dense_logprobs(call.prompt_ids + written.token_ids, 10)
        gap = (expected - torch.tensor(written.logprobs)).abs().max()
        assert gap < 1e-5, f"log-probs are off by {gap}"  # reached: 1.5e-6


def test_tokens_do_not_depend_on_arrival_order_or_batch_composition() -> None:
    requests = [request(prompt(k, 5 + k), k) for k in range(6)]
    alone = [run(generate_all(engine(), [call]))[0].token_ids for call in requests]
    forwards = [call.token_ids for call in run(generate_all(engine(), requests))]
    backwards = [call.token_ids for call in run(generate_all(engine(), requests[::-1]))][::-1]
    few_slots = [call.token_ids for call in run(generate_all(engine(slots=2), requests))]
    assert alone == forwards == backwards == few_slots
    assert len(set(alone)) == 6


def test_the_same_arrivals_give_bit_equal_logprobs() -> None:
    requests = [request(prompt(k, 5 + k), k) for k in range(6)]
    assert run(generate_all(engine(), requests)) == run(generate_all(engine(), requests[::-1]))[::-1]


def test_different_seeds_give_different_tokens_and_a_stop_token_ends_the_output() -> None:
    ids = prompt(0, 5)
    first, second = run(generate_all(engine(), [request(ids, 0, seed=1), request(ids, 1, seed=2)]))
    assert first.token_ids != second.token_ids
    stop = first.token_ids[4]
    (cut,) = run(generate_all(engine(), [request(ids, 0, seed=1, stop_ids=(stop,))]))
    assert cut.token_ids == first.token_ids[: first.token_ids.index(stop) + 1]
    assert (cut.finish_reason, first.finish_reason) == ("stop", "length")


def test_a_second_turn_computes_only_the_new_tokens() -> None:
    local = engine()

    async def turns() -> None:
        ids = prompt(0, 20)
        written = await local.generate(request(ids, 0))
        assert local.counters.prefilled_tokens == 20
        ids = ids + written.token_ids + prompt(1, 7)
        await local.generate(request(ids, 0))
        # The last written token has not been computed yet, so it is new too.
        assert local.counters.prefilled_tokens == 20 + 1 + 7
        assert local.counters.reused_tokens == 20 + 9

    run(turns())


def test_a_changed_history_is_recomputed_from_the_first_difference() -> None:
    local = engine()

    async def turns() -> tuple[Generation, Generation]:
        ids = prompt(0, 20)
        await local.generate(request(ids, 0))
        changed = (*ids[:12], (ids[12] + 1) % 61, *ids[13:])
        again = await local.generate(request(changed, 0, seed=5))
        assert local.counters.prefilled_tokens == 20 + 8
        return again, await engine().generate(request(changed, 0, seed=5))

    again, fresh = run(turns())
    assert again.token_ids == fresh.token_ids


def test_rollouts_of_a_task_share_the_prefill_of_their_prompt() -> None:
    ids = prompt(0, 24)
    requests = [request(ids, k, order=(0, k)) for k in range(6)]
    local = engine()
    shared = run(generate_all(local, requests))
    assert (local.counters.prefilled_tokens, local.counters.shared_tokens) == (24, 5 * 24)
    assert [generation.token_ids for generation in shared] == [
        run(generate_all(engine(), [r]))[0].token_ids for r in requests
    ]


def test_a_later_rollout_copies_a_cached_prefix() -> None:
    local = engine(slots=2)
    ids = prompt(0, 24)

    async def one_after_the_other() -> Generation:
        await local.generate(request(ids, 0))
        return await local.generate(request((*ids, 3, 4), 1))

    late = run(one_after_the_other())
    assert (local.counters.prefilled_tokens, local.counters.shared_tokens) == (24 + 2, 24)
    assert late.token_ids == run(generate_all(engine(), [request((*ids, 3, 4), 1)]))[0].token_ids


def test_more_sessions_than_slots_evict_the_least_recently_used_and_stay_correct() -> None:
    local, roomy = engine(slots=2), engine(slots=8)

    async def sessions(target: LocalEngine) -> list[tuple[int, ...]]:
        histories = [prompt(k, 10) for k in range(4)]
        for turn in range(3):
            for k in range(4):
                written = await target.generate(request(histories[k], k, seed=turn))
                histories[k] += written.token_ids + prompt(turn, 3)
        return histories

    assert run(sessions(local)) == run(sessions(roomy))
    assert local.counters.evictions == 10  # 12 calls; all but the first two evict a session
    assert roomy.counters.evictions == 0
    assert roomy.counters.prefilled_tokens == 4 * (10 + 2 * (1 + 3))


def test_a_released_slot_is_used_again_without_eviction() -> None:
    local = engine(slots=1)
    for index in range(3):
        run(generate_all(local, [request(prompt(index, 6), index)]))
        local.release(f"s{index}")
    local.release("never seen")
    assert local.counters.evictions == 0


def test_contexts_end_at_max_length() -> None:
    local = engine(max_length=30)
    full, over, near = run(
        generate_all(local, [request(prompt(0, 30), 0), request(prompt(1, 40), 1), request(prompt(2, 26), 2)])
    )
    assert (full.token_ids, full.finish_reason) == (over.token_ids, over.finish_reason) == ((), "length")
    assert (len(near.token_ids), near.finish_reason) == (4, "length")
    assert near.token_ids == run(generate_all(engine(), [request(prompt(2, 26), 2)]))[0].token_ids[:4]


def test_two_calls_of_one_session_run_in_order() -> None:
    local = engine()
    first, second = run(generate_all(local, [request(prompt(0, 5), 0), request(prompt(1, 9), 0, seed=3)]))
    assert first.token_ids == run(generate_all(engine(), [request(prompt(0, 5), 0)]))[0].token_ids
    assert second.token_ids == run(generate_all(engine(), [request(prompt(1, 9), 0, seed=3)]))[0].token_ids


def test_a_cancelled_call_does_not_affect_others() -> None:
    local = engine()

    async def cancel_one() -> Generation:
        cancelled = asyncio.create_task(local.generate(request(prompt(0, 5), 0, max_tokens=90)))
        other = asyncio.create_task(local.generate(request(prompt(1, 5), 1, max_tokens=20)))
        while local.counters.written_tokens < 4:
            await asyncio.sleep(0)
        cancelled.cancel()
        return await other

    other = run(cancel_one())
    assert other.token_ids == run(generate_all(engine(), [request(prompt(1, 5), 1, max_tokens=20)]))[0].token_ids
    assert local.counters.written_tokens < 40


def test_an_engine_works_after_an_event_loop_was_torn_down() -> None:
    local = engine()

    async def abandoned() -> None:
        task = asyncio.create_task(local.generate(request(prompt(0, 5), 0, max_tokens=90)))
        while local.counters.written_tokens < 4:
            await asyncio.sleep(0)
        del task

    run(abandoned())
    assert len(run(generate_all(local, [request(prompt(1, 5), 1)]))[0].token_ids) == 10


def test_refresh_clears_caches_and_takes_the_new_hash() -> None:
    own_model = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    local = LocalEngine(own_model, slots=2, max_length=50, **ENGINE_OPTIONS)
    before = local.version
    run(generate_all(local, [request(prompt(0, 8), 0)]))
    own_model.lm_head.weight.mul_(-1.0)
    local.refresh()
    assert local.version == weights_hash(own_model) != before
    again = run(generate_all(local, [request(prompt(0, 8), 0, temperature=0.0)]))[0]
    assert local.counters.prefilled_tokens == 16
    fresh = LocalEngine(own_model, slots=2, max_length=50, **ENGINE_OPTIONS)
    assert again == run(generate_all(fresh, [request(prompt(0, 8), 0, temperature=0.0)]))[0]


def test_refresh_during_requests_is_refused() -> None:
    local = engine()

    async def refresh_too_early() -> None:
        task = asyncio.create_task(local.generate(request(prompt(0, 5), 0)))
        await asyncio.sleep(0)
        with pytest.raises(ModelError, match="weights changed while requests run"):
            local.refresh()
        await task

    run(refresh_too_early())


def test_a_broken_forward_reaches_every_caller_and_the_engine_recovers() -> None:
    local = engine()

    async def bad() -> list[Any]:
        calls = [request((5, 9999), 0), request((5, 6), 1)]
        return await asyncio.gather(*(local.generate(call) for call in calls), return_exceptions=True)

    for error in run(bad()):
        assert isinstance(error, ModelError)
        assert "the local engine failed: IndexError" in str(error)
    assert len(run(generate_all(local, [request(prompt(0, 5), 0)]))[0].token_ids) == 10


def test_unusable_requests_and_models_are_refused_with_the_reason() -> None:
    with pytest.raises(ModelError, match="got 0 prompt tokens"):
        run(generate_all(engine(), [request((), 0)]))
    with pytest.raises(ValueError, match="slots must be at least 1"):
        engine(slots=0)


def test_the_model_keeps_its_mode_and_attention() -> None:
    own_model = Qwen2ForCausalLM(Qwen2Config(attention_dropout=0.5, **cast(Any, SIZES)))
    own_model.set_attn_implementation("eager")
    own_model.train()
    local = LocalEngine(own_model, slots=2, max_length=50, **ENGINE_OPTIONS)
    first, second = (run(generate_all(local, [request(prompt(0, 8), k, seed=0)]))[0] for k in range(2))
    assert first.token_ids == second.token_ids
    assert own_model.training
    assert own_model.config._attn_implementation == "eager"


def test_prefill_and_decoding_share_a_pass() -> None:
    local = engine()
    long = request(prompt(9, 40), 9, max_tokens=20)
    short = [request(prompt(k, length), k, max_tokens=1) for k, length in enumerate((3, 90, 4, 91, 5))]

    async def late() -> list[Generation]:
        first = asyncio.create_task(local.generate(long))
        while local.counters.written_tokens < 2:
            await asyncio.sleep(0)
        return [*await generate_all(local, short), await first]

    tokens = [call.token_ids for call in run(late())]
    assert local.counters.forwards == 20
    assert tokens == [run(generate_all(engine(), [call]))[0].token_ids for call in (*short, long)]


def test_long_prompts_take_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.models.engine.engine.PASS_TOKENS", 60)
    local = engine()
    requests = [request(prompt(k, 25 + k), k, max_tokens=2) for k in range(5)]
    tokens = [call.token_ids for call in run(generate_all(local, requests))]
    assert local.counters.forwards == 3 + 1
    assert tokens == [run(generate_all(engine(), [call]))[0].token_ids for call in requests]


def test_weights_that_changed_without_refresh_are_refused() -> None:
    own_model = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    local = LocalEngine(own_model, slots=2, max_length=50, **ENGINE_OPTIONS)
    own_model.lm_head.weight.mul_(1.5)
    with pytest.raises(ModelError, match="weights changed without refresh"):
        run(generate_all(local, [request(prompt(0, 8), 0)]))
    local.refresh()
    assert len(run(generate_all(local, [request(prompt(0, 8), 0)]))[0].token_ids) == 10


def test_non_finite_weights_are_refused() -> None:
    own_model = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    local = LocalEngine(own_model, slots=2, max_length=50, **ENGINE_OPTIONS)
    own_model.model.layers[0].mlp.up_proj.weight[3, 3] = torch.nan
    with pytest.raises(ModelError, match="differ by nan"):
        local.refresh()


def test_non_finite_logits_raise_and_leave_no_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_model = Qwen2ForCausalLM(Qwen2Config(**cast(Any, SIZES))).requires_grad_(False)
    local = LocalEngine(own_model, slots=2, max_length=50, **ENGINE_OPTIONS)
    own_model.model.embed_tokens.weight[1] = torch.inf
    monkeypatch.setattr("upturn.models.engine.engine.verify", lambda *_: None)  # it would use this id
    local.refresh()
    with pytest.raises(ModelError, match="logits are not finite"):
        run(generate_all(local, [request((5, 1, 7), 0)]))
    again = run(generate_all(local, [request((5, 6, 7), 0, temperature=0.0)]))[0]
    assert 1 not in again.token_ids
    assert all(math.isfinite(logprob) for logprob in again.logprobs)


def test_a_prefix_is_shared_while_its_source_decodes_and_after_release() -> None:
    local = engine(slots=4)
    ids = prompt(0, 40)

    async def staggered() -> list[Generation]:
        first = asyncio.create_task(local.generate(request(ids, 0, max_tokens=30)))
        while local.counters.written_tokens < 3:
            await asyncio.sleep(0)
        second = asyncio.create_task(local.generate(request((*ids[:33], 7, 8), 1, max_tokens=12)))
        while local.counters.written_tokens < 9:
            await asyncio.sleep(0)
        third = asyncio.create_task(local.generate(request((*ids[:20], 9), 2, max_tokens=5)))
        tokens = [await first, await second, await third]
        local.release("s0")
        return [*tokens, await local.generate(request((*ids, *tokens[0].token_ids[:10], 3), 3))]

    tokens = [generation.token_ids for generation in run(staggered())]
    # The fourth call gets the slot that the first one released, with its cached tokens.
    assert (local.counters.shared_tokens, local.counters.reused_tokens) == (33 + 20, 50)
    texts = [ids, (*ids[:33], 7, 8), (*ids[:20], 9), (*ids, *tokens[0][:10], 3)]
    counts = [30, 12, 5, 10]
    alone = [
        run(generate_all(engine(), [request(text, k, max_tokens=count)]))[0].token_ids
        for k, (text, count) in enumerate(zip(texts, counts, strict=True))
    ]
    assert tokens == alone


def test_an_aborted_request_frees_its_slot_for_waiting_requests() -> None:
    # agent-lightning #589: aborted requests continued as orphans, and their slots were never freed.
    local = engine(slots=2)

    async def abort() -> list[Generation]:
        aborted = [asyncio.create_task(local.generate(request(prompt(k, 6), k, max_tokens=90))) for k in range(2)]
        waiting = [asyncio.create_task(local.generate(request(prompt(k, 6), k))) for k in range(2, 4)]
        while local.counters.written_tokens < 6:
            await asyncio.sleep(0)
        for k, task in enumerate(aborted):
            task.cancel()
            local.release(f"s{k}")
        return [await task for task in waiting]

    generations = run(abort())
    assert [len(generation.token_ids) for generation in generations] == [10, 10]
    assert local.counters.written_tokens <= 6 + 2 * 4 + 20  # aborted requests write no more
    local.refresh()  # refused if a request were still running


def test_a_context_that_fills_up_mid_turn_is_truncated_with_every_forward_pass() -> None:
    # NeMo-RL #3851: two engines ended cut-off rollouts differently, so switching them changed the data.
    local = engine(max_length=40)

    async def turns() -> list[tuple[int, str]]:
        ids = prompt(3, 10)
        ends: list[tuple[int, str]] = []
        for turn in range(4):
            written = await local.generate(request(ids, 0, seed=turn, max_tokens=8))
            ends.append((len(written.token_ids), written.finish_reason))
            ids = ids + written.token_ids + prompt(turn, 3)
        return ends

    assert run(turns()) == [(8, "length"), (8, "length"), (8, "length"), (0, "length")]
    near = run(generate_all(engine(max_length=40), [request(prompt(3, 37), 0, max_tokens=8)]))[0]
    assert (len(near.token_ids), near.finish_reason) == (3, "length")


OPTIONED: list[dict[str, Any]] = [
    {"temperature": 0.7, "sampling": SamplingSettings(top_p=0.9)},
    {"temperature": 1.0, "sampling": SamplingSettings(top_k=3, repetition_penalty=1.4)},
    {"temperature": 1.3},
    {"temperature": 0.0, "sampling": SamplingSettings(logit_bias={9: 5.0})},
    {},
]


def optioned(count: int) -> list[GenerationRequest]:
    return [request(prompt(k, 4 + 5 * k), k, max_tokens=8, **OPTIONED[k % len(OPTIONED)]) for k in range(count)]


def test_both_logprobs_of_each_token_equal_a_dense_forward() -> None:
    requests = optioned(10)
    for call, output in zip(requests, run(generate_all(engine(), requests)), strict=True):
        ids = call.prompt_ids + output.token_ids
        with torch.inference_mode():
            logits = cast(Any, model())(torch.tensor([ids])).logits[0, len(call.prompt_ids) - 1 : -1].float()
        written = torch.tensor(output.token_ids)
        own = logits.log_softmax(-1)[torch.arange(len(written)), written]
        np.testing.assert_allclose(output.logprobs, own, atol=2e-5)
        if call.is_sampled_from_model or call.temperature == 0:
            assert output.sampling_logprobs == ()
            continue
        for index, logprob in enumerate(output.sampling_logprobs):
            seen = torch.zeros(1, logits.shape[1], dtype=torch.bool)
            seen[0, list(ids[: len(call.prompt_ids) + index])] = True
            shaped = reshape(logits[index : index + 1], [call.sampling], [call.temperature], seen=seen)
            expected = float(shaped.log_softmax(-1)[0, written[index]])
            assert logprob == pytest.approx(expected, abs=5e-5) and expected > -np.inf


@pytest.mark.parametrize("lag", [1, 3])
def test_reading_tokens_late_changes_neither_tokens_nor_logprobs(lag: int) -> None:
    requests = optioned(12)
    stops = run(generate_all(engine(), requests))[0].token_ids[3:4]
    requests = [replace(call, stop_ids=stops, sampling=call.sampling) for call in requests]

    async def two_turns(local: LocalEngine) -> list[Generation]:
        firsts = await generate_all(local, requests)
        seconds = [
            replace(call, prompt_ids=call.prompt_ids + first.token_ids + (5, 6), seed=call.seed + 1)
            for call, first in zip(requests, firsts, strict=True)
        ]
        return firsts + await generate_all(local, seconds)

    at_once, late = engine(), LocalEngine(model(), slots=8, max_length=100, lag=lag, **ENGINE_OPTIONS)
    expected, actual = run(two_turns(at_once)), run(two_turns(late))
    assert [output.token_ids for output in actual] == [output.token_ids for output in expected]
    assert {output.finish_reason for output in expected} == {"stop", "length"}
    for one, other in zip(actual, expected, strict=True):
        assert one.finish_reason == other.finish_reason
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=2e-5)
        np.testing.assert_allclose(one.sampling_logprobs, other.sampling_logprobs, atol=2e-5)
    assert late.counters.written_tokens == at_once.counters.written_tokens
    assert late.counters.reused_tokens == at_once.counters.reused_tokens


def test_a_stop_string_ends_the_output_with_the_token_that_completes_it() -> None:
    words = {f"w{number}": number for number in range(SIZES["vocab_size"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    plain = run(generate_all(engine(), optioned(5)))
    texts = [tokenizer.decode(output.token_ids) for output in plain]
    stop = " ".join(texts[0].split()[2:4])
    local = LocalEngine(model(), slots=8, max_length=100, tokenizer=tokenizer, **ENGINE_OPTIONS)
    requests = [replace(call, sampling=replace(call.sampling, stop=(stop,))) for call in optioned(5)]
    stopped = run(generate_all(local, requests))
    assert stopped[0].token_ids == plain[0].token_ids[:4] and stopped[0].finish_reason == "stop"
    assert len(stopped[0].logprobs) == len(stopped[0].sampling_logprobs) == 4
    for text, before, after in list(zip(texts, plain, stopped, strict=True))[1:]:
        assert stop in text or after.token_ids == before.token_ids
    with pytest.raises(ModelError, match="need the text of tokens: give LocalEngine the model's tokenizer"):
        run(generate_all(engine(), requests[:1]))
