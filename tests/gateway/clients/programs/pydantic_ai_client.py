"""pydantic-ai: its OpenAI and Anthropic models, with tools, streams, structured output and images."""

import asyncio
import json
import sys
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput

ASKED = "The weather in Oslo and Rome?"


class Report(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


async def tried(model: str) -> dict[str, Any]:
    plain = await Agent(model, instructions="Be brief.").run("Hello")
    agent = Agent(model, tools=[weather])
    told = await agent.run(ASKED)
    again = await agent.run("Thanks", message_history=told.all_messages())
    async with agent.run_stream(ASKED) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    schema = None
    if not model.startswith("anthropic"):  # it does so only for models that it knows by name
        schema = await Agent(model, output_type=NativeOutput(Report)).run("Hello")
    picture = BinaryContent(bytes(range(48)), media_type="image/png")
    return {
        "plain": plain.output,
        "usage": [plain.usage.input_tokens, plain.usage.cache_read_tokens, plain.usage.output_tokens],
        "told": told.output,
        "calls": told.usage.tool_calls,
        "again": again.output,
        "streamed": "".join(pieces),
        "is in pieces": len(pieces) > 2,
        "image": (await Agent(model).run(["What is it?", picture])).output,
        "by tool": (await Agent(model, output_type=Report).run("Hello")).output.model_dump(),
        "by schema": None if schema is None else schema.output.model_dump(),
    }


async def main(models: list[str]) -> None:
    """Runs everything on every model."""
    found = {
        model: {kind: await tried(f"{kind}:{model}") for kind in ("openai-chat", "openai", "anthropic")}
        for model in models
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
