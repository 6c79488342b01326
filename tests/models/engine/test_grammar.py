"""Outputs by grammar, with the extra ``grammar``; the model is random, so that only the mask makes calls."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.config import SamplingSettings
from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest
from upturn.models.calls import CALL_FORMATS, CallSchema, FunctionNames, Reading, structural_tag
from upturn.models.calls import call_schema as schema_of
from upturn.models.engine import LocalEngine
from upturn.records import Tool

TOOLS = [
    Tool("mail", "list", "Lists.", {"folder": {"enum": ["inbox", "archive"]}}, ("folder",)),
    Tool("mail", "move", "Moves.", {"id": {"type": "integer", "minimum": 0, "maximum": 9}}, ("id",)),
]
END = 256
OPTIONS = SamplingSettings(calls_only=True)


def call_schema(name: str, tools: Sequence[Tool] = TOOLS) -> CallSchema:
    return schema_of(CALL_FORMATS[name], tools, FunctionNames(tools))


@cache
def tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    built = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken("<|end|>", special=True)])
    built.add_tokens([AddedToken("<tool_call>", special=False), AddedToken("</tool_call>", special=False)])
    return built


@cache
def model() -> PreTrainedModel:
    torch.manual_seed(1)
    sizes = cast(Any, {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256})
    return Qwen2ForCausalLM(
        Qwen2Config(vocab_size=264, hidden_size=32, intermediate_size=64, num_hidden_layers=1, **sizes)
    ).requires_grad_(False)


def request(index: int, calls: CallSchema | None, **changes: Any) -> GenerationRequest:
    base = GenerationRequest(
        (3, 4, 5), 150, (END,), 1.0, f"s{index}", (index, 0), index, OPTIONS if calls else SamplingSettings(), calls
    )
    return replace(base, **changes)


def generate(requests: list[GenerationRequest], **options: Any) -> list[Generation]:
    engine = LocalEngine(model(), slots=16, max_length=200, **options)

    async def work() -> list[Generation]:
        return await asyncio.gather(*map(engine.generate, requests))

    return asyncio.run(work())


@pytest.mark.parametrize("name", ["json", "llama", "hermes"])
@pytest.mark.parametrize("lag", [0, 2])
def test_every_output_is_a_call_of_an_offered_tool(name: str, lag: int) -> None:
    pytest.importorskip("llguidance")
    calls = call_schema(name)
    requests = [request(index, calls if index % 4 else None) for index in range(12)]
    if name == "hermes":  # text may come first; a bias makes a random model end it
        bias = {257: 8.0}
        requests = [replace(one, sampling=replace(one.sampling, logit_bias=bias)) for one in requests]
    outputs = generate(requests, tokenizer=tokenizer(), lag=lag)
    finished = [
        output
        for one, output in zip(requests, outputs, strict=True)
        if one.calls and output.finish_reason == "stop"
    ]
    assert len(finished) >= 7
    for output in finished:
        text = tokenizer().decode(output.token_ids[:-1], skip_special_tokens=False)
        reading = CALL_FORMATS[name].read(text, is_strict=True)
        assert isinstance(reading, Reading)
        (call,) = reading.calls
        assert call.name in {"mail.list", "mail.move"}
        folder, number = call.arguments.get("folder"), call.arguments.get("id")
        assert folder in {"inbox", "archive"} or number in range(10)
        assert len(output.sampling_logprobs) == len(output.logprobs) == len(output.token_ids)
        # few tokens are possible at a place, so that each is likelier than for the model alone, on the whole
        assert sum(output.sampling_logprobs) > sum(output.logprobs)
    # the rows beside them are those of an engine without grammars
    plain = [one for one in requests if one.calls is None]
    alone = generate(plain)
    beside = [output for one, output in zip(requests, outputs, strict=True) if one.calls is None]
    assert [output.token_ids for output in beside] == [output.token_ids for output in alone]


def test_the_recorded_distribution_is_the_masked_one() -> None:
    pytest.importorskip("llguidance")
    (output,) = generate([request(1, call_schema("json"))], tokenizer=tokenizer())
    assert tokenizer().decode(output.token_ids[:2]) == '{"'  # forced, with probability 1
    np.testing.assert_allclose(output.sampling_logprobs[:2], 0.0, atol=1e-6)
    assert max(output.logprobs[:2]) < -1.0


def test_a_missing_tokenizer_or_stop_id_is_refused() -> None:
    calls = call_schema("json")
    with pytest.raises(ModelError, match="calls_only need the text of tokens"):
        generate([request(0, calls)])
    pytest.importorskip("llguidance")
    with pytest.raises(ModelError, match="needs a stop id with which an output can end"):
        generate([request(0, calls, stop_ids=())], tokenizer=tokenizer())


def test_formats_without_a_grammar_and_missing_tools_are_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"no grammar for calls in the format 'xml'; it has for 'hermes', 'llama'"):
        call_schema("xml")
    with pytest.raises(ModelError, match="needs tools, but the environment lists none"):
        call_schema("json", [])


def test_a_structural_tag_has_the_markers_and_the_schema() -> None:
    tag = json.loads(structural_tag(call_schema("hermes")))["format"]
    (only,) = tag["tags"]
    assert (tag["triggers"], only["begin"], only["end"]) == (["<tool_call>"], "<tool_call>\n", "\n</tool_call>")
    first = only["content"]["json_schema"]["anyOf"][0]["properties"]
    assert first["name"] == {"const": "mail.list"}
    assert first["arguments"]["properties"] == {"folder": {"enum": ["inbox", "archive"]}}
