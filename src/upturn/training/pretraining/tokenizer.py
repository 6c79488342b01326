"""Tokenizers of the shipped models: byte pairs within pieces suited to what an agent reads and copies."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from upturn.models import ERROR_TOKEN, SPECIAL_TOKENS, write_call
from upturn.training.pretraining.demonstration import Walk

if TYPE_CHECKING:
    from tokenizers import Tokenizer

GLUE = "\u2060"
"""U+2060, the word joiner: inserted before a word without a preceding space."""
_GLUED = '="(,:/[\n|@>-'
"""Characters that words follow without a space."""


def said(walk: Walk, *, are_errors_told: bool = False) -> Iterator[str]:
    """The texts of a walk as the compact renderer encodes them; errors by their code, or in full."""
    for step in walk:
        is_code = step.observation.is_error and not are_errors_told
        yield f"error {step.observation.code}" if is_code else step.observation.text
        yield write_call(step.action)


def new_tokenizer(texts: Iterable[str], pattern: str, vocabulary: int, *, is_glued: bool = False) -> "Tokenizer":
    """Byte-level byte pairs over ``texts``, within pieces that match ``pattern``, with the four special tokens.

    ``is_glued``: words always have a space before them, so that a word is the same token everywhere and copying it
    is one step: ``id=m27`` is encoded as ``id=``, GLUE, a space and ``m27``. Decoding restores the text, except for
    texts that contain GLUE and a space. A glued tokenizer also has the fifth special token: errors are shown in
    full.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(pattern), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    if is_glued:
        patterns = (Regex(f"{re.escape(character)}(?=[A-Za-z0-9])") for character in _GLUED)
        glued = [
            normalizers.Replace(regex, f"{character}{GLUE} ")
            for regex, character in zip(patterns, _GLUED, strict=True)
        ]
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *glued])
        unglued = decoders.Replace(f"{GLUE} ", "")
        tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), unglued, decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL_TOKENS, *([ERROR_TOKEN] if is_glued else [])],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
