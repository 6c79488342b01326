"""The engine on every device, against the model's own passes on the same device."""

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.models import Generation, GenerationRequest
from upturn.models.engine import LocalEngine, direct
from upturn.models.engine.replay import Replays, Run

VOCABULARY = 61


def _model(device: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    torch.manual_seed(4)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=96,
            max_position_embeddings=256,
        )
    )
    with torch.no_grad():  # far from uniform, so that the highest logit is unambiguous
        for parameter in model.parameters():
            parameter.mul_(3.0)
    built: Any = model.requires_grad_(False).eval()  # transformers' decorators hide the signature of ``to``
    moved: PreTrainedModel = built.to(device, dtype)
    return moved


def _sample(engine: LocalEngine, prompts: list[tuple[int, ...]], temperature: float) -> list[Generation]:
    async def all_at_once() -> list[Generation]:
        requests = [
            GenerationRequest(prompt, 24, (), temperature, f"session {index}", (index, 0), seed=index)
            for index, prompt in enumerate(prompts)
        ]
        return await asyncio.gather(*map(engine.generate, requests))

    return asyncio.run(all_at_once())


def _prompts() -> list[tuple[int, ...]]:
    """Of several lengths; the first two share 40 tokens."""
    generator = np.random.default_rng(5)
    shared = tuple(generator.integers(0, VOCABULARY, 40).tolist())
    others = (tuple(generator.integers(0, VOCABULARY, length).tolist()) for length in (3, 17, 90))
    return [(*shared, 1, 2), (*shared, 3), *others]


def test_greedy_tokens_are_those_of_generate(device: str) -> None:
    model = _model(device)
    generations = _sample(LocalEngine(model, slots=4, max_length=200), _prompts(), temperature=0.0)
    for prompt, generation in zip(_prompts(), generations, strict=True):
        ids = torch.tensor([prompt], device=device)
        generate: Any = model.generate
        output = generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
        assert generation.token_ids == tuple(output[0, len(prompt) :].tolist())


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_logprobs_are_those_of_a_plain_pass(device: str, dtype: torch.dtype, allowed: float) -> None:
    model = _model(device, dtype)
    generations = _sample(LocalEngine(model, slots=8, max_length=200), _prompts(), temperature=1.0)
    for prompt, generation in zip(_prompts(), generations, strict=True):
        ids = torch.tensor([(*prompt, *generation.token_ids)], device=device)
        logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0].cpu()
        torch.testing.assert_close(torch.tensor(generation.logprobs), expected, rtol=0, atol=allowed)


def test_the_same_requests_give_the_same_tokens(device: str) -> None:
    first, second = (
        _sample(LocalEngine(_model(device), slots=8, max_length=200), _prompts(), temperature=1.0) for _ in range(2)
    )
    assert [generation.token_ids for generation in first] == [generation.token_ids for generation in second]


class _Recorder:
    """In place of a CUDA graph: replays by computing again on the fixed inputs."""

    def __init__(self) -> None:
        self.replayed = 0

    def __call__(self, run: Run) -> Run:
        def again() -> torch.Tensor:
            self.replayed += 1
            return run()

        return again


def _long_prompts() -> list[tuple[int, ...]]:
    """With two that share 150 tokens, which become a shared row."""
    long = tuple(range(50)) * 3
    return [*_prompts(), (*long, 1), (*long, 2)]


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
def test_an_engine_with_recorded_steps_gives_the_same_tokens(
    dtype: torch.dtype, allowed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = _Recorder()
    plain = LocalEngine(_model("cpu", dtype), slots=8, max_length=200)
    monkeypatch.setattr(direct, "replays_for", lambda _: Replays(recorder))
    recording = LocalEngine(_model("cpu", dtype), slots=8, max_length=200)
    assert plain.forward == recording.forward == "direct"
    for _ in range(2):  # the second time, cached prompts are reused
        both = (_sample(engine, _long_prompts(), 1.0) for engine in (plain, recording))
        for expected, actual in zip(*both, strict=True):
            assert actual.token_ids == expected.token_ids
            logprobs = torch.tensor(actual.logprobs), torch.tensor(expected.logprobs)
            torch.testing.assert_close(*logprobs, rtol=0, atol=allowed)
    assert recorder.replayed > 20


def test_steps_are_recorded_again_after_a_change_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, model = _Recorder(), _model("cpu")
    with monkeypatch.context() as patched:
        patched.setattr(direct, "replays_for", lambda _: Replays(recorder))
        engine = LocalEngine(model, slots=2, max_length=100)
    before = _sample(engine, [(3, 4, 5)], 0.0)[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.flip(0))
    engine.refresh()
    after = _sample(engine, [(3, 4, 5)], 0.0)[0]
    expected = _sample(LocalEngine(model, slots=2, max_length=100), [(3, 4, 5)], 0.0)[0]
    assert after.token_ids == expected.token_ids != before.token_ids
    assert recorder.replayed > 20
