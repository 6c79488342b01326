"""A server for tests that scores given tokens, as vLLM, SGLang and OpenAI-compatible completions do."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.models.engine_server import Engine
from upturn.models import ScriptedModel

LogprobsOf = Callable[[Sequence[int]], Sequence[float]]
"""Token ids to log p of every token but the first."""


@dataclass
class ScoringEngine(Engine):
    """Answers each request in the form that its fields ask for; ``faults`` change answers as in ``Engine``."""

    logprobs_of: LogprobsOf = lambda ids: [-1.0] * (len(ids) - 1)
    text_of: Callable[[int], str] = str

    def answer(self, path: str, body: dict[str, Any], loop: asyncio.AbstractEventLoop) -> tuple[int, Any]:
        """See ``Engine.answer``; requests that score nothing are answered there."""
        if path == "/generate" and "logprob_start_len" in body:
            return 200, self._inject_faults(self._sglang(body))
        if path == "/v1/completions" and body["model"] != self.version:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        if path == "/v1/completions" and "prompt_logprobs" in body:
            return 200, self._inject_faults(self._vllm(body))
        if path == "/v1/completions" and body.get("echo"):
            return 200, self._inject_faults(self._openai(body))
        return super().answer(path, body, loop)

    def _vllm(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["max_tokens"] >= 1  # vLLM refuses 0 without echo
        ids = body["prompt"]
        entries = [
            {str(token): {"logprob": value, "rank": 1, "decoded_token": self.text_of(token)}}
            for token, value in zip(ids[1:], self.logprobs_of(ids), strict=True)
        ]
        return {"model": self.version, "choices": [{"text": "x", "prompt_logprobs": [None, *entries]}]}

    def _sglang(self, body: dict[str, Any]) -> dict[str, Any]:
        ids, start = body["input_ids"], body["logprob_start_len"]
        values = [None, *self.logprobs_of(ids)]
        entries = [[None if at == start else values[at], ids[at], None] for at in range(start, len(ids))]
        return {"text": "", "meta_info": {"input_token_logprobs": entries, "prompt_tokens": len(ids)}}

    def _openai(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = body["prompt"]
        values = [None, *self.logprobs_of(ids), -0.5]
        tokens = [*map(self.text_of, ids), "sampled"]
        logprobs = {"token_logprobs": values, "tokens": tokens, "text_offset": [], "top_logprobs": []}
        return {"model": self.version, "choices": [{"text": "".join(tokens), "logprobs": logprobs}]}


def scoring_engine(logprobs_of: LogprobsOf, text_of: Callable[[int], str] = str) -> ScoringEngine:
    """An engine that serves the model ``teacher``."""
    return ScoringEngine(ScriptedModel(["x"], lambda _: [1]), "teacher", logprobs_of=logprobs_of, text_of=text_of)
