"""What is stored of the words in calls, for tenants that anonymise before anything is stored.

Clients send the whole conversation with each call, so the messages are remembered by their hash, in memory only,
and read once. What the model and the client get is not changed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import Lock
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from upturn.dialects import Message, ModelAnswer, ModelRequest, ToolDefinition
from upturn.pool.access import Border
from upturn.pool.privacy import Replacer, replace_json
from upturn.records import JsonValue, fields_json, from_fields

_MOST_BYTES = 16_000_000
"""Of remembered messages in which something was replaced."""
_MOST = 50_000
"""Remembered messages."""
PartT = TypeVar("PartT", Message, ToolDefinition)


class StoredWords:
    """What is stored of requests and answers. For one event loop."""

    def __init__(self, border: Border) -> None:
        self.border = border
        self._known: OrderedDict[tuple[Replacer, bytes], str] = OrderedDict()
        """By replacer and hash of a part's JSON: the JSON with replacements; empty = there are none."""
        self._size = 0
        self._lock = Lock()

    async def of_request(self, request: ModelRequest, tenant: str) -> ModelRequest:
        """Returns the request as it is stored; the same object where nothing is replaced."""
        replacer = self.border.replacer(tenant)
        if replacer is None:
            return request
        return await asyncio.to_thread(self._of_request, request, replacer)

    async def answered(self, answer: ModelAnswer | None, tenant: str) -> ModelAnswer | None:
        """Returns the answer as it is stored; the same object where nothing is replaced."""
        if answer is None or self.border.replacer(tenant) is None:
            return answer
        return await asyncio.to_thread(self.of_answer, answer, tenant)

    def of_answer(self, answer: ModelAnswer, tenant: str) -> ModelAnswer:
        """As ``answered``, without a thread."""
        replacer = self.border.replacer(tenant)
        if replacer is None:
            return answer
        fields = from_json(fields_json(answer))
        names = ("parts", "lines")
        clean = fields | {name: replace_json(fields[name], replacer) for name in names}
        return answer if clean == fields else from_fields(ModelAnswer, to_json(clean))

    def _of_request(self, request: ModelRequest, replacer: Replacer) -> ModelRequest:
        messages = self._parts(Message, request.messages, replacer)
        tools = self._parts(ToolDefinition, request.tools, replacer)
        if messages is request.messages and tools is request.tools:
            return request
        return replace(request, messages=tuple(messages), tools=tuple(tools))

    def _parts(self, kind: type[PartT], parts: Sequence[PartT], replacer: Replacer) -> Sequence[PartT]:
        stored = [self._part(kind, part, replacer) for part in parts]
        return parts if all(new is old for new, old in zip(stored, parts, strict=True)) else stored

    def _part(self, kind: type[PartT], part: PartT, replacer: Replacer) -> PartT:
        text = fields_json(part)
        key = replacer, blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        known = self._remembered(key)
        if known is None:
            fields = from_json(text)
            data = [image.pop("data") for image in _images(fields)]  # no text, and long
            clean = replace_json(fields, replacer)
            is_same = clean == fields
            for image, content in zip(_images(clean), data, strict=True):
                image["data"] = content
            known = "" if is_same else to_json(clean).decode()
            self._remember(key, known)
        return from_fields(kind, known) if known else part

    def _remembered(self, key: tuple[Replacer, bytes]) -> str | None:
        with self._lock:
            if key not in self._known:
                return None
            self._known.move_to_end(key)
            return self._known[key]

    def _remember(self, key: tuple[Replacer, bytes], stored: str) -> None:
        with self._lock:
            if key not in self._known:
                self._known[key] = stored
                self._size += len(stored)
            while len(self._known) > _MOST or self._size > _MOST_BYTES:
                self._size -= len(self._known.popitem(last=False)[1])


def _images(fields: Any) -> list[dict[str, JsonValue]]:
    """Returns the images in the JSON of a message, also in results of tools; none in that of a tool."""
    parts = [part for part in fields.get("parts", ()) if isinstance(part, dict)]
    results = [image for part in parts if "call_id" in part for image in part["parts"]]
    return [part for part in (*parts, *results) if "media_type" in part]
