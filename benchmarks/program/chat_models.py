"""Models of a measurement: the shipped one, and random ones with the chat templates of model families.

Their tokenizers are trained on the templates: nothing is downloaded.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.workloads import ModelSpec, build_model
from upturn.models import LocalModel, load_local

NANO = "nano"
_TEMPLATES = Path(__file__).resolve().parents[2] / "tests" / "data" / "chat_templates"


class _Marks(NamedTuple):
    special: tuple[str, ...]
    plain: tuple[str, ...]
    """Added tokens that do not count as special."""
    end: str
    begin: str | None = None


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_HEADERS = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
_FAMILIES: Mapping[str, _Marks] = {
    "qwen2_5": _Marks(_CHATML, ("<tool_call>", "</tool_call>"), "<|im_end|>"),
    "qwen3": _Marks(
        _CHATML,
        ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
        "<|im_end|>",
    ),
    "llama3_1": _Marks(_HEADERS, (), "<|eot_id|>", "<|begin_of_text|>"),
}
FAMILIES = tuple(_FAMILIES)
SMALL = ModelSpec(width=64, layers=2)
MIDDLE = ModelSpec(width=512, layers=6)
"""About 25 million parameters."""


def load_measured(name: str, spec: ModelSpec = SMALL) -> LocalModel:
    """``nano``, or a random model with the template of a family.

    ``spec``: of a random model; its vocabulary is the tokenizer's.
    """
    if name == NANO:
        return load_local(NANO)
    from tokenizers import Tokenizer

    chat = _chat_tokenizer(name)
    tokenizer: Tokenizer = chat.backend_tokenizer
    shape = ModelSpec(spec.width, spec.layers, len(chat), spec.positions)
    return LocalModel(build_model(shape).eval(), tokenizer, chat, name)


@cache
def _chat_tokenizer(family: str) -> Any:
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerFast

    marks, template = _FAMILIES[family], (_TEMPLATES / f"{family}.jinja").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_str(_byte_tokenizer())
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in marks.special])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in marks.plain])
    constructor: Any = PreTrainedTokenizerFast
    return constructor(
        tokenizer_object=tokenizer, eos_token=marks.end, bos_token=marks.begin, chat_template=template
    )


@cache
def _byte_tokenizer() -> str:
    """Byte-level BPE, without added tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    texts = [(_TEMPLATES / f"{family}.jinja").read_text(encoding="utf-8") for family in _FAMILIES]
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str())
