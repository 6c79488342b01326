"""A model that writes scripted texts: for tests, without weights."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from upturn.models.model import FinishReason, Generation, GenerationRequest


class ScriptedModel:
    """Writes the i-th text in the i-th call of each session, with log-probability 0; then repeats the last one.

    An exception in place of a text is raised. A text longer than ``max_tokens`` is truncated.
    """

    def __init__(
        self, texts: Sequence[str | Exception], encode: Callable[[str], Sequence[int]], *, version: str = "scripted"
    ) -> None:
        """``encode``: text to ids without a stop token, which is added."""
        if not texts:
            raise ValueError("a ScriptedModel needs at least one text")
        self._texts = tuple(texts)
        self._encode = encode
        self._version = version
        self._calls: Counter[str] = Counter()
        self.requests: list[GenerationRequest] = []
        """All calls, in order of arrival."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """The session's next text."""
        self.requests.append(request)
        text = self._texts[min(self._calls[request.session], len(self._texts) - 1)]
        self._calls[request.session] += 1
        await asyncio.sleep(0)
        if isinstance(text, Exception):
            raise text
        ids = (*self._encode(text), *request.stop_ids[:1])
        output = tuple(ids[: request.max_tokens])
        reason: FinishReason = "stop" if len(output) == len(ids) else "length"
        return Generation(output, (0.0,) * len(output), reason, self._version)

    def release(self, session: str) -> None:
        """Resets the session's position in the script."""
        self._calls.pop(session, None)
