"""The openai package: chat completions, Responses, embeddings. Arguments: names of models."""

import base64
import json
import sys
from typing import Any

from openai import NotFoundError, OpenAI
from pydantic import BaseModel

IMAGE = "data:image/png;base64," + base64.b64encode(bytes(range(48))).decode()
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": PARAMETERS}}
FLAT = {"type": "function", "name": "weather", "description": "Weather", "parameters": PARAMETERS, "strict": True}
ASKED = "The weather in Oslo and Rome?"
client = OpenAI()


class Report(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


def usage(counted: Any) -> list[int]:
    return [
        counted.prompt_tokens,
        counted.prompt_tokens_details.cached_tokens,
        counted.completion_tokens,
        counted.completion_tokens_details.reasoning_tokens,
    ]


def chat(model: str) -> dict[str, Any]:
    create = client.chat.completions.create
    messages: list[Any] = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    plain = create(model=model, messages=messages)
    messages += [plain.choices[0].message, {"role": "user", "content": "Again"}]
    asked: list[Any] = [{"role": "user", "content": ASKED}]
    calling = create(model=model, messages=asked, tools=[WEATHER], reasoning_effort="low").choices[0]
    asked.append(calling.message)
    for call in calling.message.tool_calls:
        city = json.loads(call.function.arguments)["city"]
        asked.append({"role": "tool", "tool_call_id": call.id, "content": f"rain in {city}"})
    answered = create(model=model, messages=asked, tools=[WEATHER], reasoning_effort="low").choices[0]
    picture = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    parsed = client.chat.completions.parse(model=model, messages=messages[:2], response_format=Report)
    return {
        "plain": plain.choices[0].message.content,
        "usage": usage(plain.usage),
        "second": create(model=model, messages=messages).choices[0].message.content,
        "finish": calling.finish_reason,
        "calls": [[call.function.name, call.function.arguments] for call in calling.message.tool_calls],
        "after the calls": answered.message.content,
        "thought": getattr(calling.message, "reasoning_content", ""),
        "image": create(model=model, messages=[{"role": "user", "content": picture}]).choices[0].message.content,
        "parsed": parsed.choices[0].message.parsed.model_dump(),
    }


def chat_stream(model: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": ASKED}]
    with client.chat.completions.stream(
        model=model, messages=messages, tools=[WEATHER], stream_options={"include_usage": True}
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    choice = final.choices[0]
    quiet = list(client.chat.completions.create(model=model, messages=messages, stream=True))
    return {
        "text": "".join(deltas),
        "is in pieces": len(deltas) > 2,
        "calls": [[call.function.name, call.function.arguments] for call in choice.message.tool_calls],
        "finish": choice.finish_reason,
        "usage": usage(final.usage),
        "usage unasked": [chunk.usage for chunk in quiet if chunk.usage is not None],
    }


def responses(model: str) -> dict[str, Any]:
    create = client.responses.create
    plain = create(model=model, instructions="Be brief.", input="Hello")
    asked: list[Any] = [{"role": "user", "content": ASKED}]
    effort: Any = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}
    calling = create(model=model, input=asked, tools=[FLAT], **effort)
    asked += calling.output
    calls = [item for item in calling.output if item.type == "function_call"]
    for call in calls:
        city = json.loads(call.arguments)["city"]
        asked.append({"type": "function_call_output", "call_id": call.call_id, "output": f"rain in {city}"})
    picture = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": IMAGE}]
    parsed = client.responses.parse(model=model, input="Hello", text_format=Report)
    return {
        "plain": plain.output_text,
        "usage": [
            plain.usage.input_tokens,
            plain.usage.input_tokens_details.cached_tokens,
            plain.usage.output_tokens,
            plain.usage.output_tokens_details.reasoning_tokens,
        ],
        "calls": [[call.name, call.arguments] for call in calls],
        "after the calls": create(model=model, input=asked, tools=[FLAT], **effort).output_text,
        "image": create(model=model, input=[{"role": "user", "content": picture}]).output_text,
        "parsed": parsed.output_parsed.model_dump(),
    }


def responses_stream(model: str) -> dict[str, Any]:
    with client.responses.stream(model=model, input=ASKED, tools=[FLAT]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    arguments = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    return {
        "text": "".join(event.delta for event in events if event.type == "response.output_text.delta"),
        "arguments": "".join(arguments),
        "is in pieces": len(arguments) > 4,
        "calls": [[item.name, item.arguments] for item in final.output if item.type == "function_call"],
        "last": events[-1].type,
        "numbers": [event.sequence_number for event in events] == list(range(len(events))),
        "tokens": final.usage.total_tokens,
    }


def unknown() -> dict[str, Any]:
    try:
        client.chat.completions.create(model="nothing", messages=[{"role": "user", "content": "Hello"}])
    except NotFoundError as error:
        return {"status": error.status_code, "code": error.code, "param": error.param}
    return {}


def main(models: list[str]) -> None:
    """Runs everything on every model."""
    found: dict[str, Any] = {
        model: {
            "chat": chat(model),
            "chat stream": chat_stream(model),
            "responses": responses(model),
            "responses stream": responses_stream(model),
        }
        for model in models
    }
    embedded = client.embeddings.create(model=models[0], input=["a", "abc"], encoding_format="float")
    found["embeddings"] = [entry.embedding for entry in embedded.data]
    found["unknown model"] = unknown()
    found["models"] = [model.id for model in client.models.list()]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
