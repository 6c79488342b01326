"""Conversations with a local model as clients of each dialect hold them: over the wire forms, answers sent back."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from upturn.config import FULL_DISTRIBUTION
from upturn.dialects import DialectName, dialect_of
from upturn.models import ChatRenderer, Generation, GenerationRequest
from upturn.models.upstreams import LocalUpstream, UpstreamCall
from upturn.models.upstreams.chat_script import ChatScript
from upturn.records import Action, Tool

Tokenizers = Callable[..., PreTrainedTokenizerFast]
Json = dict[str, Any]
TOOL = Tool("", "find", "Finds mails.", {"text": {"type": "string"}}, ("text",))
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Written:
    """A Generator whose answers are given, and which keeps its prompts."""

    def __init__(self, answers: Sequence[Sequence[int]]) -> None:
        self._answers: Iterator[Sequence[int]] = iter(answers)
        self.rows: list[tuple[int, ...]] = []
        self.prompts: list[tuple[int, ...]] = []
        self.causes: list[str | None] = []

    def number(self) -> int:
        return len(self.rows)

    async def generate(self, request: GenerationRequest, fork_cause: str | None, _seen: object, /) -> Generation:
        answer = tuple(next(self._answers))
        self.prompts.append(request.prompt_ids)
        self.rows.append((*request.prompt_ids, *answer))
        self.causes.append(fork_cause)
        return Generation(answer, (-0.5,) * len(answer), "stop", "v1")

    async def close(self) -> None:
        """Nothing to end."""


class ChatClient:
    """Chat completions; arguments are serialised anew, and thoughts are left out."""

    dialect: DialectName = "chat"

    def __init__(self) -> None:
        self.fields: Json = {
            "tools": [{"type": "function", "function": {"name": "find", "description": "Finds mails."}}]
        }
        self.fields["tools"][0]["function"]["parameters"] = SCHEMA
        self.messages: list[Json] = [{"role": "system", "content": "Be brief."}]

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def body(self) -> Json:
        return {**self.fields, "messages": self.messages}

    def take(self, answer: Json) -> None:
        message = answer["choices"][0]["message"]
        kept: Json = {"role": "assistant", "content": message["content"] and message["content"].strip()}
        results: list[Json] = []
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))
            sent: Json = {"id": f"new_{call['id']}", "type": "function"}
            sent["function"] = {"name": call["function"]["name"], "arguments": arguments}
            kept.setdefault("tool_calls", []).append(sent)
            results.append({"role": "tool", "tool_call_id": sent["id"], "content": "2 mails"})
        self.messages += [kept, *results]


class ResponsesClient:
    """Responses; the output's items are sent back as they came."""

    dialect: DialectName = "responses"

    def __init__(self) -> None:
        tool = {"type": "function", "name": "find", "description": "Finds mails.", "parameters": SCHEMA}
        self.fields: Json = {"instructions": "Be brief.", "tools": [tool]}
        self.items: list[Json] = []

    def say(self, text: str) -> None:
        self.items.append({"role": "user", "content": text})

    def body(self) -> Json:
        return {**self.fields, "input": self.items}

    def take(self, answer: Json) -> None:
        self.items += answer["output"]
        self.items += [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "2 mails"}
            for item in answer["output"]
            if item["type"] == "function_call"
        ]


class MessagesClient:
    """Anthropic Messages; results are in the user's message, together with the next text."""

    dialect: DialectName = "messages"

    def __init__(self) -> None:
        tool = {"name": "find", "description": "Finds mails.", "input_schema": SCHEMA}
        self.fields: Json = {"max_tokens": 99, "system": [{"type": "text", "text": "Be brief."}], "tools": [tool]}
        self.messages: list[Json] = []

    def say(self, text: str) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append({"type": "text", "text": text})
        else:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def body(self) -> Json:
        return {**self.fields, "messages": self.messages}

    def take(self, answer: Json) -> None:
        self.messages.append({"role": "assistant", "content": answer["content"]})
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "2 mails"}
            for block in answer["content"]
            if block["type"] == "tool_use"
        ]
        if results:
            self.messages.append({"role": "user", "content": results})


async def converse(
    upstream: LocalUpstream,
    client: ChatClient | ResponsesClient | MessagesClient,
    calls: int,
    says: Mapping[int, str],
) -> None:
    """Makes calls; ``says``: what the client says after the answer with this number."""
    dialect = dialect_of(client.dialect)
    client.say("Find Bob.")
    for number in range(calls):
        body = json.dumps({"model": "m", **client.body()}).encode()
        call = UpstreamCall(body, dialect.read_request(body), dialect, answer_id=f"a-{number}")
        async with upstream.open(call) as exchange:
            chunks = [chunk.content async for chunk in exchange.chunks()]
        client.take(json.loads(b"".join(chunks)))
        if number in says:
            client.say(says[number])


@pytest.mark.parametrize("client_type", [ChatClient, ResponsesClient, MessagesClient])
@pytest.mark.parametrize("family", ["qwen2_5", "qwen3"])
def test_calls_of_a_client_are_one_row_in_every_dialect(
    chat_tokenizer: Tokenizers, family: str, client_type: type[ChatClient | ResponsesClient | MessagesClient]
) -> None:
    renderer = ChatRenderer(chat_tokenizer(family), (TOOL,))
    template, client = renderer.template, client_type()
    thought = template.encode("<think>\nWho?\n</think>\n\n") if family == "qwen3" else []
    both = renderer.write_all([Action("", "find", {"text": name}) for name in ("bob", "Ann-Marie ü")])
    end = renderer.stop_ids[0]
    answers = [
        [*thought, *renderer.write(Action("", "find", {"text": "bob"}))],
        [*thought, *template.encode("I look again."), *(token for part in both for token in part)],
        [*template.encode(" Found  it. \n"), end],
        [*template.encode("Yes."), end],
    ]
    generator = Written(answers)
    upstream = LocalUpstream(
        generator,
        lambda: ChatScript(renderer, ""),
        model="m",
        temperature=1.0,
        sampling=FULL_DISTRIBUTION,
        max_length=lambda: 4000,
    )
    asyncio.run(converse(upstream, client, len(answers), {2: "Sure?"}))
    drops = family == "qwen3"  # its template drops thoughts after a message of the user
    assert generator.causes == [None, None, None, "template" if drops else None]
    assert [fork.cause for fork in upstream.forks] == (["template"] if drops else [])
    for number in range(1, 3 if drops else 4):
        row = generator.rows[number - 1]
        assert generator.prompts[number][: len(row)] == row
    results = template.decode(generator.prompts[2][len(generator.rows[1]) :])
    assert results.count("2 mails") == 2


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3_1", "lfm2_5", "qwen3_coder", "glm4_6"])
def test_whatever_an_untrained_model_writes_its_row_goes_on(chat_tokenizer: Tokenizers, family: str) -> None:
    renderer = ChatRenderer(chat_tokenizer(family), (TOOL,))
    random, client = Random(0), ChatClient()
    thoughts = {renderer.template.id_of(token) for token in ("<think>", "</think>")}
    tokens = [token for token in range(renderer.template.size) if token not in {*thoughts, *renderer.stop_ids}]
    answers = [random.choices(tokens, k=random.randrange(1, 40)) for _ in range(12)]
    for answer in answers[::2]:
        answer.append(renderer.stop_ids[0])  # the others are cut off
    generator = Written(answers)
    upstream = LocalUpstream(
        generator,
        lambda: ChatScript(renderer, ""),
        model="m",
        temperature=1.0,
        sampling=FULL_DISTRIBUTION,
        max_length=lambda: 10_000,
    )
    asyncio.run(converse(upstream, client, len(answers), {number: "Go on." for number in range(12)}))
    assert generator.causes == [None] * 12
    for row, prompt in zip(generator.rows, generator.prompts[1:], strict=False):
        assert prompt[: len(row)] == row
