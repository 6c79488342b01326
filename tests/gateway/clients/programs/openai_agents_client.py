"""openai-agents: Responses by default, with tools, a hand-off, streams and structured output."""

import asyncio
import json
import sys
from typing import Any

from pydantic import BaseModel

from agents import (
    Agent,
    Runner,
    function_tool,
    set_default_openai_api,
    set_tracing_disabled,
)

ASKED = "The weather in Oslo and Rome?"
set_tracing_disabled(True)  # traces go to OpenAI otherwise


class Report(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


async def tried(model: str) -> dict[str, Any]:
    plain = await Runner.run(Agent(name="clerk", instructions="Be brief.", model=model), "Hello")
    agent = Agent(name="clerk", model=model, tools=[weather])
    told = await Runner.run(agent, ASKED)
    again = await Runner.run(agent, [*told.to_input_list(), {"role": "user", "content": "Thanks"}])
    streamed = Runner.run_streamed(agent, ASKED)
    deltas = [
        event.data.delta
        async for event in streamed.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    parsed = await Runner.run(Agent(name="clerk", model=model, output_type=Report), "Hello")
    usage = told.context_wrapper.usage
    return {
        "plain": plain.final_output,
        "told": told.final_output,
        "usage": [
            usage.requests,
            usage.input_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens,
        ],
        "again": again.final_output,
        "streamed": streamed.final_output,
        "text": "".join(deltas),
        "parsed": parsed.final_output.model_dump(),
    }


async def main(models: list[str]) -> None:
    """Runs everything on every model."""
    found: dict[str, Any] = {model: {} for model in models}
    for kind in ("responses", "chat_completions"):
        set_default_openai_api(kind)
        for model in models:
            found[model][kind] = await tried(model)
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
