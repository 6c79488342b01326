"""A conversation that uses everything that all dialects can say."""

import pytest

from upturn.dialects import (
    Image,
    Message,
    ModelRequest,
    Sampling,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)
from upturn.records import JsonValue


@pytest.fixture
def request_with_tools() -> ModelRequest:
    """Two parallel calls with their results, an image, a named limit and one tool that must be called."""
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    return ModelRequest(
        "route",
        (
            Message("system", (Text("Be brief."),)),
            Message("user", (Text("Compare these."), Image("image/png", "iVBORw0KGgo="))),
            Message(
                "assistant",
                (
                    Text("I look."),
                    ToolCall("call_1", "weather", '{"city": "Köln"}'),
                    ToolCall("call_2", "weather", '{"city": "Bonn"}'),
                ),
            ),
            Message("tool", (ToolResult("call_1", (Text("rain"),)), ToolResult("call_2", (Text("sun"),)))),
            Message("user", (Text("And now?"),)),
        ),
        (ToolDefinition("weather", "The weather in a city.", schema),),
        ToolChoice("required", is_parallel=False),
        Sampling(max_tokens=100, temperature=0.5, top_p=0.9),
    )
