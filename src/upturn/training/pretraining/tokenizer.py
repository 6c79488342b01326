"""Tokenizers of the shipped models: byte pairs within pieces suited to what an agent reads and copies."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from upturn.models import ERROR_TOKEN, GLUE, SPECIAL_TOKENS, write_call
from upturn.training.pretraining.demonstration import Demonstration

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_GLUED = '="(,:/[\n|@>-'
"""Characters that words follow without a space."""


def demonstration_texts(demonstration: Demonstration, *, has_full_errors: bool = False) -> Iterator[str]:
    """The texts that the compact renderer encodes separately; ``has_full_errors``: error texts, not only codes."""
    for step in demonstration:
        observation = step.observation
        is_code = observation.is_error and not has_full_errors
        yield f"error {observation.code}" if is_code else observation.text
        yield write_call(step.action)


def new_tokenizer(texts: Iterable[str], pattern: str, vocabulary: int, *, is_glued: bool = False) -> "Tokenizer":
    """Byte-level byte pairs over ``texts``, within pieces that match ``pattern``, with the four special tokens.

    ``is_glued``: words always have a space before them, so that a word is the same token everywhere and copying it
    is one step: ``id=m27`` is encoded as ``id=``, GLUE, a space and ``m27``. Decoding restores the text, except for
    texts that contain GLUE and a space. A glued tokenizer also has ``ERROR_TOKEN``, with which errors are shown in
    full.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(pattern), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    if is_glued:
        glued = [
            normalizers.Replace(Regex(f"{re.escape(character)}(?=[A-Za-z0-9])"), f"{character}{GLUE} ")
            for character in _GLUED
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
