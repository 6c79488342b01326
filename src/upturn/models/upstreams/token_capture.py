"""Token ids and log-probs from a server's answer, without the client noticing.

vLLM's chat endpoint returns ``prompt_token_ids`` and, in each choice, ``token_ids`` if ``return_token_ids`` is set
(vLLM 0.10.2 and later). What only we asked for is taken out of the answer. Nothing here fails a call: tokens that
are missing or inconsistent only make the capture incomplete.
"""

import json
from collections.abc import Mapping
from typing import Any

from upturn.dialects import Json, ModelAnswer
from upturn.models.upstreams.upstream import Drawn, UpstreamCall
from upturn.records import TokenRow, WrittenSpan

_RESHAPING = ("top_p", "top_k", "presence_penalty", "frequency_penalty")
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
        self._is_broken = False
        wanted = call.request.sampling
        options = {name: getattr(wanted, name) for name in _RESHAPING}
        changed = {name: value for name, value in options.items() if value is not None}
        self._drawn = None if wanted.temperature is None else Drawn(wanted.temperature, changed)

    def event(self, raw: bytes) -> bytes:
        """Takes the tokens out of one event of a stream; what is not a chunk is returned unchanged."""
        if not self.fields or not raw.startswith(b"data:"):
            return raw
        stripped = self._taken(raw.removeprefix(b"data:"))
        return raw if stripped is None else b"data: " + stripped + b"\n\n"

    def whole(self, content: bytes) -> bytes:
        """Takes the tokens out of a whole answer."""
        stripped = self._taken(content) if self.fields else None
        return content if stripped is None else stripped

    def row(self, answer: ModelAnswer) -> tuple[TokenRow | None, str, Drawn | None]:
        """The tokens of the answer, once all of it was seen, or why they are unknown; and how they were drawn.

        The server's own defaults are unknown: only a request with a temperature says how its tokens are drawn.
        """
        row, problem = self._row(answer) if self.fields else (None, "")
        return row, problem, None if row is None else self._drawn

    def _taken(self, content: bytes) -> bytes | None:
        """The body without what only we asked for; None = it stays as it is."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return None
        self._take(body)
        if self._keeps_logprobs and self._keeps_ids:
            return None
        self._strip(body)
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _take(self, body: Any) -> None:  # Any: a server's JSON
        try:
            choice = (body.get("choices") or [{}])[0]
            self._prompt = _ids(body.get("prompt_token_ids") or choice.get("prompt_token_ids") or self._prompt)
            self._ids += _ids(choice.get("token_ids") or [])
            self._logprobs += [
                float(entry["logprob"]) for entry in (choice.get("logprobs") or {}).get("content") or []
            ]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            self._is_broken = True

    def _row(self, answer: ModelAnswer) -> tuple[TokenRow | None, str]:
        count = len(self._ids)
        if self._is_broken:
            return None, "the server returned tokens in an unknown form"
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


def _ids(values: Any) -> list[int]:  # Any: a server's JSON
    """Raises TypeError for what is not token ids."""
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise TypeError(f"not token ids: {values!r:.100}")
    return values
