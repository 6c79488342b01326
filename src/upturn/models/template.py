"""A tokenizer's chat template: messages to text to token ids, without injected control tokens.

Text from an environment, a user or a model is *marked* before rendering: each control token in it is put between
two private-use characters. In the rendered text, marked tokens are encoded as plain text and the template's own as
control tokens. Text without control tokens is encoded in one piece.

Templates that use the date get a fixed one: a prompt must not change overnight, or a resumed run would differ from
an uninterrupted one.

Not covered: markup that is ordinary text to the tokenizer (``</tool_response>`` of Qwen2.5), and control tokens
that a template assembles from pieces of a message.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from tokenizers import Tokenizer

from upturn.errors import ModelError, error_text
from upturn.records import JsonValue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message: TypeAlias = dict[str, Any]
"""As chat templates take it: role, content, tool_calls (JSON, hence Any)."""
Messages: TypeAlias = list[Message]
ValueT = TypeVar("ValueT")

START, END = "\U000f0000", "\U000f0001"
"""Private use; replaced in untrusted text, so that marks cannot be forged."""
_REPLACED = {ord(START): "\ufffd", ord(END): "\ufffd"}
_PIECES = re.compile(f"{START}([^{START}{END}]*){END}")

_BEFORE = "\n"
"""Encoded before an inner piece of a text, because some tokenizers add a blank at the start; in no word."""

FIXED_DATE = """{%- macro strftime_now(format) -%}
{%- if format == "%Y-%m-%d" -%}2024-07-26{%- else -%}26 Jul 2024{%- endif -%}
{%- endmacro -%}
"""
"""The fallback date of the templates of Llama 3.1 and 3.2."""


class ChatTemplate:
    """A tokenizer with its chat template, copied where needed."""

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", options: Mapping[str, JsonValue] | None = None
    ) -> None:
        """``options``: variables of the template, such as ``enable_thinking``; None = none.

        Raises ModelError when the tokenizer has no template or is not a fast one, and for options that the template
        does not mention.
        """
        if not tokenizer.chat_template:
            raise ModelError(
                "the tokenizer has no chat template, so the prompt format of its model is unknown; use the model's "
                "instruction-tuned variant, or put its chat_template.jinja into the folder"
            )
        self._tokenizer = tokenizer
        self._options = dict(options or {})
        self._source = str(tokenizer.get_chat_template(tools=[]))
        unknown = [name for name in self._options if name not in self._source]
        if unknown:
            raise ModelError(
                f"template option {unknown[0]!r} has no effect: the chat template does not mention it; remove it"
            )
        self._template = FIXED_DATE + self._source if "strftime_now" in self._source else self._source
        self._encoder = _encoder(tokenizer)
        added = self._encoder.get_added_tokens_decoder()
        self.special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        """Ids that never encode text."""
        self._controls = {
            token.content: token_id
            for token_id, token in added.items()
            if token.special or (token.content in self._source and not token.content.isspace())
        }
        self._control_ids = frozenset(self._controls.values())
        self.size = self._encoder.get_vocab_size()
        self.eos_id = None if tokenizer.eos_token is None else self._controls.get(str(tokenizer.eos_token))
        """Id of the tokenizer's end token; None = it has none."""

    def mentions(self, text: str) -> bool:
        """Whether the template's source contains the text."""
        return text in self._source

    def id_of(self, token: str) -> int | None:
        """The id of a control token; None = the text is not one."""
        return self._controls.get(token)

    def text_of(self, special_id: int) -> str:
        """The text of a control token."""
        return next(text for text, token_id in self._controls.items() if token_id == special_id)

    def mark(self, value: ValueT, *, but: Collection[str] = ()) -> ValueT:
        """The value (text, or JSON with texts) with all control tokens in it marked, except those in ``but``."""
        return cast(ValueT, self._mark(value, frozenset(but)))

    def render(self, messages: Messages, tools: Sequence[Message], *, is_open: bool) -> str:
        """The conversation as text with marks; ``is_open``: it ends with the generation prompt.

        Raises ModelError with the template's error.
        """
        render: Any = self._tokenizer.apply_chat_template  # unknown keyword arguments are template variables
        try:
            text = render(
                messages,
                tools=list(tools) or None,
                chat_template=self._template,
                add_generation_prompt=is_open,
                tokenize=False,
                **self._options,
            )
        except Exception as exc:  # templates are third-party programs
            roles = ", ".join(str(message["role"]) for message in messages)
            raise ModelError(f"the chat template refuses the conversation ({roles}): {error_text(exc)}") from exc
        if not isinstance(text, str):
            raise ModelError(f"the chat template returned a {type(text).__name__} instead of text")
        return text

    def encode(self, text: str) -> list[int]:
        """The ids of rendered text; marked tokens become plain text."""
        # A template that splits a marked text leaves unpaired marks.
        first, *pieces = (piece.replace(START, "").replace(END, "") for piece in _PIECES.split(text))
        ids = self._encode(first)
        for index, piece in enumerate(pieces):
            ids += self._encode_inside(piece) if index % 2 else self._encode_literal(piece)
        return ids

    def encode_after(self, token_id: int, text: str) -> list[int]:
        """The ids of rendered text after a special token: some tokenizers add a blank at the start of a text."""
        ids = self.encode(self.text_of(token_id) + text)
        assert ids[:1] == [token_id]  # special tokens are split off before encoding
        return ids[1:]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids, control tokens included."""
        text: str = self._encoder.decode(list(token_ids), skip_special_tokens=False)
        return text

    def _mark(self, value: object, but: frozenset[str]) -> object:
        if isinstance(value, str):
            return self._mark_text(value, but)
        if isinstance(value, Mapping):
            return {self._mark(key, but): self._mark(item, but) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._mark(item, but) for item in value]
        return value

    def _mark_text(self, text: str, but: frozenset[str]) -> str:
        text = text.translate(_REPLACED).encode("utf-8", "backslashreplace").decode()
        present = [token for token in self._controls if token in text and token not in but]
        if not present:
            return text
        longest_first = sorted(present, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), f"{START}\\g<0>{END}", text)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._encoder.encode(text, add_special_tokens=False).ids
        return ids

    def _encode_inside(self, text: str) -> list[int]:
        """The ids of a piece inside a text."""
        before = self._encode(_BEFORE)
        ids = self._encode(_BEFORE + text)
        return ids[len(before) :] if ids[: len(before)] == before else self._encode(text)

    def _encode_literal(self, text: str) -> list[int]:
        """The ids of a control token's characters as plain text, inside a text."""
        before = self._encode_plain(_BEFORE)
        ids = self._encode_plain(_BEFORE + text)
        ids = ids[len(before) :] if ids[: len(before)] == before else self._encode_plain(text)
        if self._control_ids.intersection(ids):  # a word-level tokenizer matches it anyway
            ids = [token for character in text for token in self._encode_plain(character)]
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        """As the tokenizer encodes, but without matching added tokens."""
        encoder = self._encoder
        if encoder.normalizer is not None:
            text = encoder.normalizer.normalize_str(text)
        words = [text]
        if encoder.pre_tokenizer is not None:
            words = [word for word, _ in encoder.pre_tokenizer.pre_tokenize_str(text)]
        return [token.id for word in words for token in encoder.model.tokenize(word)]


def unmarked_at(text: str, token: str, start: int) -> int:
    """Index of the template's own control token, from ``start`` on; -1 = none."""
    match = re.compile(f"(?<!{START}){re.escape(token)}").search(text, start)
    return -1 if match is None else match.start()


def _encoder(tokenizer: "PreTrainedTokenizerBase") -> Tokenizer:
    """A copy without padding or truncation; raises ModelError when there is no fast tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ModelError(
            f"a {type(tokenizer).__name__} has no fast tokenizer; save one as tokenizer.json with "
            "AutoTokenizer.from_pretrained(..., use_fast=True).save_pretrained(folder)"
        )
    copied = Tokenizer.from_str(backend.to_str())
    copied.no_padding()
    copied.no_truncation()
    copied.encode_special_tokens = False
    return copied
