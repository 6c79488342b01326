"""The anthropic package: messages, streams, tools, thinking, counts. Arguments: names of models."""

import base64
import json
import sys
from typing import Any

from anthropic import Anthropic, NotFoundError

IMAGE = base64.b64encode(bytes(range(48))).decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Weather", "input_schema": SCHEMA}
ASKED = {"role": "user", "content": "The weather in Oslo and Rome?"}
THINKING = {"type": "enabled", "budget_tokens": 2048}
client = Anthropic()


def calls_of(message: Any) -> list[Any]:
    return [[block.name, block.input] for block in message.content if block.type == "tool_use"]


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def results_of(message: Any) -> dict[str, Any]:
    """The results of its calls, with the marks that harnesses set for the cache."""
    blocks = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"rain in {block.input['city']}"}
        for block in message.content
        if block.type == "tool_use"
    ]
    blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return {"role": "user", "content": blocks}


def whole(model: str) -> dict[str, Any]:
    def create(messages: list[Any], **fields: Any) -> Any:
        return client.messages.create(model=model, max_tokens=4096, messages=messages, **fields)

    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    plain = create([{"role": "user", "content": "Hello"}], system=system)
    calling = create([ASKED], tools=[WEATHER], thinking=THINKING)
    history = [ASKED, {"role": "assistant", "content": calling.content}, results_of(calling)]
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
    picture = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    return {
        "plain": text_of(plain),
        "usage": [plain.usage.input_tokens, plain.usage.cache_read_input_tokens, plain.usage.output_tokens],
        "stop": calling.stop_reason,
        "calls": calls_of(calling),
        "after the calls": text_of(create(history, tools=[WEATHER], thinking=THINKING)),
        "image": text_of(create([{"role": "user", "content": picture}])),
        "parsed": json.loads(text_of(create([{"role": "user", "content": "Hello"}], output_config=form))),
    }


def streamed(model: str) -> dict[str, Any]:
    with client.messages.stream(
        model=model, max_tokens=4096, messages=[ASKED], tools=[WEATHER], thinking=THINKING
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    history = [ASKED, {"role": "assistant", "content": final.content}, results_of(final)]
    with client.messages.stream(
        model=model, max_tokens=4096, messages=history, tools=[WEATHER], thinking=THINKING
    ) as stream:
        texts = list(stream.text_stream)
    return {
        "thought": "".join(block.thinking for block in final.content if block.type == "thinking"),
        "text": text_of(final),
        "calls": calls_of(final),
        "stop": final.stop_reason,
        "output tokens": final.usage.output_tokens,
        "events": [kinds[0], kinds[-1]],
        "after the calls": "".join(texts),
        "is in pieces": len(texts) > 2,
    }


def unknown() -> Any:
    try:
        client.messages.create(model="nothing", max_tokens=5, messages=[ASKED])
    except NotFoundError as error:
        return error.body["error"]["type"]
    return None


def main(models: list[str]) -> None:
    """Runs everything on every model."""
    found: dict[str, Any] = {model: {"whole": whole(model), "stream": streamed(model)} for model in models}
    counted = client.messages.count_tokens(model=models[0], messages=[{"role": "user", "content": "x" * 400}])
    found["counted"] = counted.input_tokens
    found["unknown model"] = unknown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
