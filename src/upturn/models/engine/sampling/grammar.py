"""Outputs by grammar: which tokens may come next, by the library llguidance (the extra ``grammar``)."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from upturn.errors import ModelError
from upturn.models.calls import CallSchema

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Bools = npt.NDArray[np.bool_]
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as templates write it: a free choice of spaces would be noise in the recorded log-probs."""


class Grammars:
    """The grammars of one tokenizer."""

    def __init__(self, tokenizer: "Tokenizer", vocabulary: int) -> None:
        """``vocabulary``: of the model, which may be more than the tokenizer's."""
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._tokenizers: dict[tuple[int, ...], Any] = {}
        """llguidance's tokenizers by the ids that end an output; building one is slow."""
        self._matchers: dict[tuple[CallSchema, tuple[int, ...]], Any] = {}
        """llguidance's matchers before the first token."""

    def start(self, schema: CallSchema, stop_ids: Sequence[int]) -> "Matcher":
        """A matcher for one output, which may only end with one of ``stop_ids``, after a whole call.

        Raises ModelError as ``prepare``.
        """
        self.prepare(schema, stop_ids)
        return Matcher(self._matchers[schema, tuple(stop_ids)].deep_copy(), self._vocabulary)

    def prepare(self, schema: CallSchema, stop_ids: Sequence[int]) -> None:
        """Compiles the grammar, once; raises ModelError where llguidance is missing, or cannot use the schema."""
        ends = tuple(stop_ids)
        if (schema, ends) in self._matchers:
            return
        try:
            from llguidance import LLMatcher, LLTokenizer
        except ImportError as exc:
            raise ModelError(
                "sampling.calls_only needs llguidance, which is not installed: pip install 'upturn[grammar]'"
            ) from exc
        if not ends:
            raise ModelError("sampling.calls_only needs a stop id with which an output can end, got none")
        if ends not in self._tokenizers:
            text = self._tokenizer.to_str()
            self._tokenizers[ends] = LLTokenizer(text, n_vocab=self._vocabulary, eos_token=list(ends))
        matcher = LLMatcher(self._tokenizers[ends], self._grammar(schema))
        if matcher.is_error():
            raise ModelError(
                f"llguidance cannot use the tools' schema {schema.schema[:300]!r}: {matcher.get_error()}"
            )
        self._matchers[schema, ends] = matcher

    def _grammar(self, schema: CallSchema) -> str:
        """In llguidance's dialect of Lark; a marker that is an added token is named without quotes."""
        call = json.dumps(json.loads(schema.schema) | {"x-guidance": _SPACING}, ensure_ascii=False)
        if not schema.opening:
            return f"start: call\ncall: %json {call}\n"
        start = f"TEXT? {self._marker(schema.opening)} call {self._marker(schema.closing)}"
        return f"start: {start}\ncall: %json {call}\nTEXT: /[^{schema.opening[0]}]+/\n"

    def _marker(self, text: str) -> str:
        marker = text.strip()
        added = self._tokenizer.get_added_tokens_decoder().values()
        if any(token.content == marker for token in added):
            before, after = text.split(marker)
            return " ".join(part for part in (_quoted(before), marker, _quoted(after)) if part)
        return _quoted(text)


class Matcher:
    """The state of one output. Single use."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        """``matcher``: llguidance's."""
        self._matcher = matcher
        self._vocabulary = vocabulary

    def allowed(self) -> Bools:
        """``(V,)``: True for tokens that may come next; raises ModelError where there is none."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: self._vocabulary].astype(np.bool_)
        if self._matcher.is_error() or not allowed.any():
            raise ModelError(
                f"the grammar of the tools' calls failed: {self._matcher.get_error() or 'no token fits'}"
            )
        return allowed

    def push(self, token: int) -> None:
        """Takes the next token, which was allowed."""
        self._matcher.consume_token(token)


def _quoted(text: str) -> str:
    return json.dumps(text) if text else ""
