"""smolagents: an agent that calls tools and one that writes code."""

import json
import os
import sys
from typing import Any

from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool

ASKED = "The weather in Oslo and Rome?"


@tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Name of the city.
    """
    return f"rain in {city}"


def tried(name: str) -> dict[str, Any]:
    def model() -> Any:
        return OpenAIServerModel(name, api_base=os.environ["OPENAI_BASE_URL"], api_key="none")

    streaming = ToolCallingAgent([weather], model(), verbosity_level=0, stream_outputs=True)
    return {
        "calls": ToolCallingAgent([weather], model(), verbosity_level=0).run(ASKED),
        "streamed calls": streaming.run(ASKED),
        "code": CodeAgent([weather], model(), verbosity_level=0).run(ASKED),
    }


if __name__ == "__main__":
    found = {name: tried(name) for name in sys.argv[1:]}
    print(f"\n{json.dumps(found)}")
