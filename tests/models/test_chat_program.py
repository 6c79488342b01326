"""Programs on models with chat templates: rows and log-probs are those of the engine and of the model."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from tests.models.test_chat_rollout import random_model
from upturn.agents import Attempt, RolloutRequest, Setting, build, rollout
from upturn.config import Limits, OptimiserSettings
from upturn.environments import one_step
from upturn.models import ChatRenderer, Generation, GenerationRequest
from upturn.models.engine import LocalEngine
from upturn.records import AgentVersion, Trajectory
from upturn.training import policy_rows
from upturn.training.optimisation.trainer import Trainer

Tokenizers = Callable[..., PreTrainedTokenizerFast]
KIT = one_step("say", lambda _: ("say red", {}), lambda action, _: bool(action.parameters))
TASK = next(KIT.tasks(seed=3, split="train", families=["say"]))
LIMITS = Limits(max_tokens=1500, max_action_tokens=10, max_turns=20)
VERSION = AgentVersion("mine", "1", "program", model="tiny", parameters={"import_path": f"{__name__}:program"})
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("find", "send")
]


async def program(attempt: Attempt) -> str:
    """Talks with its model, beside a sub-agent of its own, and sends its messages back as a harness does."""
    headers = {"authorization": f"Bearer {attempt.api_key}"}
    async with httpx2.AsyncClient(timeout=60, headers=headers) as client:

        async def ask(messages: list[dict[str, Any]], tools: list[Any]) -> str:
            body = {"model": "any", "messages": messages, "tools": tools}
            answer = await client.post(f"{attempt.base_url}/chat/completions", json=body)
            return str(answer.json()["choices"][0]["message"]["content"])

        async def converse(system: str, question: str) -> None:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            for number in range(3):
                said = await ask(messages, TOOLS[:: -1 if number % 2 else 1])
                messages.append({"role": "assistant", "content": f"\n{said} "})
                messages.append({"role": "user", "content": f"go on, {number}"})

        await asyncio.gather(converse("Be brief.", attempt.task), converse("You help.", "Find red."))
    return "red"


class RecordingEngine(LocalEngine):
    """Keeps its own record."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.record: list[tuple[GenerationRequest, Generation]] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        generation = await super().generate(request)
        self.record.append((request, generation))
        return generation


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3_1"])
def test_a_programs_conversations_are_rows_of_the_engines_own_tokens(
    chat_tokenizer: Tokenizers, family: str
) -> None:
    tokenizer = chat_tokenizer(family)
    model, renderer = random_model(family, len(tokenizer)), ChatRenderer(tokenizer)
    engine = RecordingEngine(model, slots=4, max_length=1500)
    setting = Setting(
        "k", build(VERSION, limits=LIMITS, renderer=renderer), VERSION.id, engine, limits=LIMITS, seed=1
    )
    trajectory: Trajectory = asyncio.run(rollout(RolloutRequest(TASK, 0, 0), KIT.environment, setting))
    assert (trajectory.outcome, len(trajectory.turns)) == ("finished", 6)
    assert [row.fork_cause for row in trajectory.rows] == [None, "new_conversation"]
    sampled = {request.prompt_ids: generation for request, generation in engine.record}
    for row in trajectory.rows:
        assert len(row.spans) == 3
        logprobs: list[float] = []
        for span in row.spans:
            generation = sampled.pop(row.token_ids[: span.start])
            assert row.token_ids[span.start : span.stop] == generation.token_ids
            logprobs += generation.logprobs
        assert row.logprobs == tuple(logprobs)
    assert not sampled
    scored = policy_rows(trajectory, [1.0] * 6)
    trainer = Trainer(model, OptimiserSettings(learning_rate=1e-3))
    for trained, again in zip(scored, trainer.score(scored), strict=True):
        assert trained.old_logprobs is not None
        np.testing.assert_allclose(again, trained.old_logprobs, atol=1e-4)
