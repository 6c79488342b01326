"""Tokenizers of the shipped models: byte pairs within pieces that suit what an agent reads and copies."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from upturn.models import ERROR_TOKEN, SPECIAL_TOKENS, write_call
from upturn.training.pretraining.demonstration import Walk

if TYPE_CHECKING:
    from tokenizers import Tokenizer

GLUE = "\u2060"
"""U+2060, the word joiner: before a word that no space stands before."""
_GLUED = '="(,:/[\n|@>-'
"""Characters that words stand behind without a space."""


def said(walk: Walk, *, are_errors_told: bool = False) -> Iterator[str]:
    """The texts of a walk, as the compact renderer encodes each on its own; errors by their code, or in full."""
    for step in walk:
        is_code = step.observation.is_error and not are_errors_told
        yield f"error {step.observation.code}" if is_code else step.observation.text
        yield write_call(step.action)


def new_tokenizer(texts: Iterable[str], pattern: str, vocabulary: int, *, is_glued: bool = False) -> "Tokenizer":
    """Byte-level byte pairs over ``texts``, within pieces that match ``pattern``, with the four special tokens.

    A glued one knows the fifth, too: errors are shown in full.

    ``is_glued``: words always carry a space before them, so that a word is the same token wherever it stands and
    copying it is one step: ``id=m27`` is read as ``id=``, GLUE, a space and ``m27``. What is decoded is the text as
    it was, but for texts that hold GLUE and a space themselves.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(pattern), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    if is_glued:
        found = (Regex(f"{re.escape(character)}(?=[A-Za-z0-9])") for character in _GLUED)
        glued = [
            normalizers.Replace(each, f"{character}{GLUE} ") for each, character in zip(found, _GLUED, strict=True)
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
