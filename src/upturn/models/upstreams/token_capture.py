"""Token ids and log-probs from a server's answer, without the client noticing.

vLLM's chat endpoint returns ``prompt_token_ids`` and, in each choice, ``token_ids`` if ``return_token_ids`` is set
(vLLM 0.10.2 and later). What only we asked for is taken out of the answer. Nothing here fails a call: tokens that
are missing or inconsistent only make the capture incomplete.
"""

import json
from collections.abc import Mapping
from typing import Any

from upturn.dialects import Json, ModelAnswer
from upturn.models.upstreams.upstream import UpstreamCall
from upturn.records import TokenRow, WrittenSpan

_CAPTURED: Json = {"return_token_ids": True, "logprobs": True}


class TokenCapture:
    """The capture of one call."""

    def __init__(self, kind: str, dialect: str, call: UpstreamCall) -> None:
        self.fields: Mapping[str, Any] = _CAPTURED if kind == "vllm" and dialect == "chat" else {}
        """To add to the request."""
        self._keeps_logprobs = b'"logprobs"' in call.body
        self._keeps_ids = b'"return_token_ids"' in call.body
        self._prompt: list[int] = []
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._rest = b""

    def of_answer(self, content: bytes, answer: ModelAnswer) -> tuple[TokenRow | None, str]:
        """The tokens of a whole answer, or why they are unknown."""
        if not self.fields:
            return None, ""
        self._take(content)
        return self._row(answer)

    def of_stream(self, answer: ModelAnswer) -> tuple[TokenRow | None, str]:
        """The tokens of a stream that was ``seen`` to its end, or why they are unknown."""
        return self._row(answer) if self.fields else (None, "")

    def seen(self, content: bytes) -> bytes:
        """Takes the tokens out of a part of a stream; returns the events in it that are complete."""
        if not self.fields:
            return content
        *events, self._rest = (self._rest + content).split(b"\n\n")
        return b"".join(self._event(event) for event in events)

    def stripped(self, content: bytes) -> bytes:
        """The whole answer without what only we asked for."""
        if not self.fields or (self._keeps_logprobs and self._keeps_ids):
            return content
        body = json.loads(content)
        self._strip(body)
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    def _event(self, event: bytes) -> bytes:
        data = event.removeprefix(b"data:").strip()
        if not event.startswith(b"data:") or data == b"[DONE]":
            return event + b"\n\n"
        self._take(data)
        return b"data: " + self.stripped(data) + b"\n\n"

    def _take(self, content: bytes) -> None:
        try:
            body = json.loads(content)
            choice = (body.get("choices") or [{}])[0]
            self._prompt = list(body.get("prompt_token_ids") or choice.get("prompt_token_ids") or self._prompt)
            self._ids += choice.get("token_ids") or []
            self._logprobs += [
                float(entry["logprob"]) for entry in (choice.get("logprobs") or {}).get("content") or []
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._ids = []

    def _row(self, answer: ModelAnswer) -> tuple[TokenRow | None, str]:
        count = len(self._ids)
        if not self._prompt or not count:
            return None, "the server returned no token ids"
        if count != answer.usage.output:
            return None, f"the server returned {count} token ids and counts {answer.usage.output}"
        if len(self._logprobs) != count:
            return None, f"the server returned {len(self._logprobs)} log-probs for {count} tokens"
        start = len(self._prompt)
        span = WrittenSpan(0, start, start + count)
        return TokenRow(
            (*self._prompt, *self._ids), (span,), tuple(min(0.0, value) for value in self._logprobs)
        ), ""

    def _strip(self, body: Any) -> None:  # Any: a server's JSON
        choices = body.get("choices") if isinstance(body, dict) else None
        if not isinstance(choices, list):
            return
        if not self._keeps_ids:
            body.pop("prompt_token_ids", None)
        for choice in choices:
            if isinstance(choice, dict) and not self._keeps_ids:
                choice.pop("token_ids", None)
                choice.pop("prompt_token_ids", None)
            if isinstance(choice, dict) and not self._keeps_logprobs:
                choice["logprobs"] = None
