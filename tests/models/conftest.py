"""Tokenizers of the model families with chat templates, trained here: nothing is downloaded."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from benchmarks.errands.tools import errands_tools

TEMPLATES = Path(__file__).parent.parent / "data" / "chat_templates"
QWEN_WORDS = r"'s|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""The pre-tokenizer pattern of Qwen and Llama, without some contractions."""

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPECIAL: Mapping[str, tuple[str, ...]] = {
    "qwen2_5": CHATML,
    "qwen3": CHATML,
    "llama3_1": (
        "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
        "<|eot_id|>", "<|python_tag|>",
    ),
    "mistral": (
        "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
        "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    ),
    "ministral": (
        "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
        "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    ),
    "qwen3_coder": CHATML,
    "gemma4": (
        "<bos>", "<eos>", "<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", '<|"|>',
        "<|tool_response>", "<tool_response|>", "<|channel>", "<channel|>", "<|think|>",
    ),
    "lfm2_5": ("<|startoftext|>", "<|im_start|>", "<|im_end|>", "<|tool_call_start|>", "<|tool_call_end|>"),
    "glm4_6": (
        "<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
    ),
    "gpt_oss": (
        "<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
        "<|message|>", "<|call|>",
    ),
    "deepseek_v3_1": (
        "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>",
        "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>",
    ),
}  # fmt: skip
PLAIN: Mapping[str, tuple[str, ...]] = {
    "qwen2_5": ("<tool_call>", "</tool_call>"),
    "qwen3": ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
    "qwen3_coder": ("<tool_call>", "</tool_call>"),
    "lfm2_5": ("<think>", "</think>"),
    "glm4_6": (
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<tool_response>",
        "</tool_response>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ),
    "deepseek_v3_1": ("<think>", "</think>"),
}
"""Added tokens that do not count as special."""
BEGIN = {
    "llama3_1": "<|begin_of_text|>", "mistral": "<s>", "ministral": "<s>", "gemma4": "<bos>",
    "lfm2_5": "<|startoftext|>", "deepseek_v3_1": "<｜begin▁of▁sentence｜>",
}  # fmt: skip
END = {
    "qwen2_5": "<|im_end|>", "qwen3": "<|im_end|>", "qwen3_coder": "<|im_end|>", "lfm2_5": "<|im_end|>",
    "llama3_1": "<|eot_id|>", "mistral": "</s>", "ministral": "</s>", "gemma4": "<turn|>",
    "glm4_6": "<|endoftext|>", "gpt_oss": "<|return|>", "deepseek_v3_1": "<｜end▁of▁sentence｜>",
}  # fmt: skip
TRAINED_ON = ("llama3_1", "mistral", "qwen2_5", "qwen3")


def _corpus() -> list[str]:
    """The tokenizers' training texts: templates, and tools of errands."""
    tools = [json.dumps(tool.properties) + tool.name + tool.description for tool in errands_tools()]
    return [*((TEMPLATES / f"{family}.jinja").read_text() for family in TRAINED_ON), *tools]


@cache
def _bytes_tokenizer() -> str:
    """Byte-level BPE as in Qwen and Llama, without added tokens."""
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_corpus(), trainer)
    return str(tokenizer.to_str())


@cache
def _sentencepiece_tokenizer() -> str:
    """BPE on characters with byte fallback and blanks as ``▁``, as in Mistral before Tekken."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(_corpus(), trainers.BpeTrainer(vocab_size=700, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokens = [*SPECIAL["mistral"], *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate(dict.fromkeys(tokens))},
            merges=[tuple(pair) for pair in model["merges"]],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return str(tokenizer.to_str())


def _chat_tokenizer(family: str, **settings: Any) -> PreTrainedTokenizerFast:
    """A tokenizer of the family with its template; ``settings`` override the defaults."""
    base = _sentencepiece_tokenizer() if family == "mistral" else _bytes_tokenizer()
    tokenizer = Tokenizer.from_str(base)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL[family]])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in PLAIN.get(family, ())])
    defaults: dict[str, Any] = {
        "tokenizer_object": tokenizer,
        "eos_token": END[family],
        "bos_token": BEGIN.get(family),
        "chat_template": (TEMPLATES / f"{family}.jinja").read_text(),
    }
    constructor: Any = PreTrainedTokenizerFast  # its constructor takes anything
    chat_tokenizer: PreTrainedTokenizerFast = constructor(**(defaults | settings))
    return chat_tokenizer


@pytest.fixture
def chat_tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    """By family, as in ``END``."""
    return _chat_tokenizer


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are slower on two threads; tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
