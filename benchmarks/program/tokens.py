"""The tokens and log-probs that attempts of programs record, against the engine's own record.

Programs talk over several turns, with tools, as streams, in all dialects, with retries that their client marks, and
with a side call. A row must have, at each written span, exactly what the engine returned for exactly the tokens
before it; the trainer's scorer recomputes the log-probs.
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.comparison import result
from benchmarks.measurement import Measurement
from benchmarks.program.chat_models import FAMILIES, NANO, load_measured
from benchmarks.program.observed_engine import Calls, ObservedEngine
from benchmarks.program.plan import Plan
from benchmarks.program.talk import KIT, attempts, setting
from upturn.agents import Attempt
from upturn.config import Limits, OptimiserSettings
from upturn.errors import MeasurementError
from upturn.models import LocalModel
from upturn.models.engine import LocalEngine
from upturn.records import JsonValue, Result, Trajectory
from upturn.training.optimisation import Trainer
from upturn.training.row import model_rows

_LIMITS = Limits(max_turns=20, max_tokens=1_800, max_action_tokens=24)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Finds mails.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }
]
_MESSAGES_TOOLS = [
    {
        "name": "find",
        "description": "Finds mails.",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
]
CALLS = 10
"""Completions of ``exercise``: 3 + 2 + 2 + 1 + 2."""
_MAX_GAP = 1e-4


async def exercise(attempt: Attempt) -> None:
    """Calls its model in every way."""
    import aiohttp

    headers = {"authorization": f"Bearer {attempt.api_key}", "x-api-key": attempt.api_key}
    async with aiohttp.ClientSession(headers=headers) as client:

        async def send(path: str, body: dict[str, Any], **more: str) -> bytes:
            async with client.post(f"{attempt.base_url}{path}", json=body, headers=more) as response:
                if response.status != 200:
                    raise MeasurementError(f"a call was answered {response.status}: {await response.text()}")
                return await response.read()

        messages: list[Any] = [{"role": "system", "content": "Be brief."}, _user(attempt.task)]
        for number in range(3):  # a conversation with tools, the second of its calls sent twice
            body = {"model": "m", "messages": messages, "tools": _TOOLS, "max_tokens": 20}
            raw = await send("/chat/completions", body)
            if number == 1 and await send("/chat/completions", body, **{"x-stainless-retry-count": "1"}) != raw:
                raise MeasurementError("a marked retry was answered otherwise")
            messages += _next_chat(json.loads(raw)["choices"][0]["message"], number)
        talk: list[Any] = [_user("Tell me something about this: " + attempt.task)]
        for _ in range(2):  # a stream
            body = {"model": "m", "messages": talk, "stream": True, "max_tokens": 16}
            talk += [
                {"role": "assistant", "content": _streamed(await send("/chat/completions", body))},
                _user("And?"),
            ]
        said: list[Any] = [_user("Look for " + attempt.task)]
        for number in range(2):  # Anthropic's messages, with tools
            raw = await send(
                "/messages", {"model": "m", "messages": said, "tools": _MESSAGES_TOOLS, "max_tokens": 16}
            )
            content = json.loads(raw)["content"]
            results = [
                {"type": "tool_result", "tool_use_id": part["id"], "content": f"{number} mails"}
                for part in content
                if part["type"] == "tool_use"
            ]
            said += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": results or f"Go on, {number}."},
            ]
        await send("/responses", {"model": "m", "input": "A side call: " + attempt.task, "max_output_tokens": 16})
        again = {"model": "m", "messages": [_user("Once more: " + attempt.task)], "max_tokens": 12}
        await send("/chat/completions", again)  # the same, unmarked: a second completion
        await send("/chat/completions", again)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _next_chat(answer: dict[str, Any], number: int) -> list[Any]:
    """The answer as an SDK sends it back, and what follows."""
    calls = answer.get("tool_calls") or []
    results = [{"role": "tool", "tool_call_id": call["id"], "content": f"{number} mails"} for call in calls]
    return [answer, *(results or [_user(f"Go on, {number}.")])]


def _streamed(raw: bytes) -> str:
    """The text of a stream of chat completions."""
    events = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def different_calls(trajectories: Sequence[Trajectory], calls: Calls) -> tuple[int, int]:
    """How many calls of the engine are not in the rows exactly, and how many written spans are not the engine's."""
    spans: dict[tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]], int] = {}
    for trajectory in trajectories:
        for row in trajectory.rows:
            done = 0
            for span in row.spans:
                count = span.stop - span.start
                key = (
                    row.token_ids[: span.start],
                    row.token_ids[span.start : span.stop],
                    row.logprobs[done : done + count],
                )
                spans[key] = spans.get(key, 0) + 1
                done += count
    missing = 0
    for request, generation in calls:
        key = (request.prompt_ids, generation.token_ids, generation.logprobs)
        if spans.get(key, 0):
            spans[key] -= 1
        else:
            missing += 1
    return missing, sum(spans.values())


def measure_tokens(plan: Plan) -> Measurement:
    """The compact grammar and the templates of three families."""
    results: list[Result] = []
    details: dict[str, JsonValue] = {}
    tasks = list(itertools.islice(KIT.tasks(seed=1, split="train", families=["talk"]), min(8, plan.parallel)))
    for name in (NANO, *FAMILIES):
        plan.log(f"tokens: {name}")
        local = load_measured(name)
        assert _LIMITS.max_tokens is not None
        engine = LocalEngine(local.model, slots=32, max_length=_LIMITS.max_tokens, tokenizer=local.tokenizer)
        observed = ObservedEngine(engine)
        setup = setting(local, observed, exercise, _LIMITS, parallel=len(tasks), key="tokens")
        trajectories = attempts(setup, tasks, parallel=len(tasks))
        failed = [each.error or each.outcome for each in trajectories if each.outcome != "finished"]
        calls = observed.taken()
        if failed or len(calls) != CALLS * len(tasks):
            raise MeasurementError(
                f"{name}: {CALLS * len(tasks)} completions were expected, the engine made {len(calls)}; failed "
                f"attempts: {failed[:3]}"
            )
        missing, foreign = different_calls(trajectories, calls)
        results += [
            result(f"{name}_other_calls", float(missing + foreign), "calls", plan.bar(0.0, is_upper=True)),
            result(f"{name}_logprob_gap", _gap(local, trajectories), "nats", plan.bar(_MAX_GAP, is_upper=True)),
        ]
        details[name] = {
            "calls": len(calls),
            "rows": sum(len(each.rows) for each in trajectories),
            "written_tokens": sum(len(generation.token_ids) for _, generation in calls),
        }
    return Measurement(tuple(results), details)


def _gap(local: LocalModel, trajectories: Sequence[Trajectory]) -> float:
    """The largest distance of a recorded log-prob from the trainer's."""
    rows = [row for trajectory in trajectories for row in model_rows(trajectory)]
    scored = Trainer(local.model, OptimiserSettings()).score(rows)
    gaps = []
    for row, logprobs in zip(rows, scored, strict=True):
        assert row.old_logprobs is not None
        gaps.append(float(np.abs(row.old_logprobs - logprobs).max()))
    return max(gaps)
