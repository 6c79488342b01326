"""The engine with many architectures, compared with ``generate`` and with the plain forward pass of the model."""

import asyncio
import warnings

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from tests.architectures import ARCHITECTURES, VOCABULARY, WINDOW, build, documented
from upturn.models import Generation, GenerationRequest
from upturn.models.engine import LocalEngine

TOKENS = 6
QUICK = (
    "Mistral, windowed",
    "Qwen3-Next",
    "Gemma 3",
    "gpt-oss",
    "Granite 3",
    "Granite 4, hybrid",
    "DeepSeek-V3",
    "LFM2",
    "BLOOM",
    "Gemma 3, multimodal",
)
"""Compared with ``generate`` in the default run; one for each way to run, and the others in the slow tests."""


def ids(seed: int, count: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, VOCABULARY, count).tolist())


def greedy(model: PreTrainedModel, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """What the model's own ``generate`` writes."""
    tensor = torch.tensor([prompt])
    output = model.generate(  # type: ignore[operator]
        tensor, attention_mask=torch.ones_like(tensor), max_new_tokens=TOKENS, do_sample=False, eos_token_id=None
    )
    written: list[int] = output[0, len(prompt) :].tolist()
    return tuple(written)


class Sessions:
    """An engine whose every answer is compared with ``generate`` and with the plain forward pass."""

    def __init__(self, model: PreTrainedModel, slots: int) -> None:
        self.model = model
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "LocalEngine runs .* one sequence at a time", RuntimeWarning)
            self.engine = LocalEngine(model, slots=slots, max_length=120)

    def ask(self, prompts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """What the engine writes after each session's prompt, all at the same time."""

        async def gather() -> list[Generation]:
            requests = (
                GenerationRequest(prompt, TOKENS, (), 0.0, session, (index, 0), 0)
                for index, (session, prompt) in enumerate(prompts.items())
            )
            return await asyncio.gather(*map(self.engine.generate, requests))

        answers = dict(zip(prompts, asyncio.run(gather()), strict=True))
        for session, answer in answers.items():
            assert answer.token_ids == greedy(self.model, prompts[session]), session
            row = torch.tensor([prompts[session] + answer.token_ids])
            with torch.no_grad():
                logprobs = self.model(input_ids=row, use_cache=False).logits[0].log_softmax(-1)
            expected = logprobs[-TOKENS - 1 : -1].gather(1, row[0, -TOKENS:, None])[:, 0]
            assert answer.logprobs == pytest.approx(expected.tolist(), abs=1e-4), session
        return {session: answer.token_ids for session, answer in answers.items()}


def test_the_page_lists_every_tested_architecture() -> None:
    types = {name: row.kind for name, row in documented().items()}
    assert types == {name: kind for name, (kind, _) in ARCHITECTURES.items()}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_runs_as_the_page_says(name: str) -> None:
    """Opening an engine compares its logits with the model's."""
    engine = Sessions(build(name), slots=2).engine
    assert engine.forward == documented()[name].forward, engine.forward_reason


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ARCHITECTURES]
)
def test_greedy_tokens_equal_those_of_generate(name: str) -> None:
    """Prompts of several lengths, continued, shared, cut and evicted sessions; most are longer than the window."""
    sessions = Sessions(build(name), slots=5)
    prompts = {"short": ids(0, 3), "a": ids(1, WINDOW + 1), "b": ids(2, 30)}
    first = sessions.ask(prompts | {"same": prompts["b"]})  # computed once, copied
    counters = sessions.engine.counters
    assert counters.shared_tokens == 30
    further = {key: prompts.get(key, prompts["b"]) + first[key] + ids(len(key), 11) for key in first}
    second = sessions.ask(further)
    assert counters.reused_tokens > 0
    cut = {"b": further["b"][:25] + ids(5, 7), "a": further["a"] + second["a"] + ids(6, 3)}
    sessions.ask(cut)
    sessions.ask({"late": further["same"][:33] + ids(7, 4)})  # starts with a prefix in another session's slot
    sessions.ask({f"new {index}": ids(20 + index, 9 + 4 * index) for index in range(5)})
    assert counters.evictions > 0
    sessions.ask({"a": cut["a"]})
