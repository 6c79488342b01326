"""LangChain and LangGraph: chat models of OpenAI's and Anthropic's package, and a prebuilt agent with tools."""

import base64
import json
import sys
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel

IMAGE = base64.b64encode(bytes(range(48))).decode()
ASKED = "The weather in Oslo and Rome?"


class Report(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


def calls_of(message: Any) -> list[Any]:
    return [[call["name"], call["args"]] for call in message.tool_calls]


def tried(model: Any) -> dict[str, Any]:
    plain = model.invoke([("system", "Be brief."), ("user", "Hello")])
    calling = model.bind_tools([weather])
    first = calling.invoke(ASKED)
    results = [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
    whole: AIMessageChunk | None = None
    count = 0
    for chunk in calling.stream(ASKED):
        count += 1
        whole = chunk if whole is None else whole + chunk
    picture: list[Any] = [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": IMAGE},
    ]
    agent = create_react_agent(model, [weather])
    told = agent.invoke({"messages": [("user", ASKED)]})["messages"]
    again = agent.invoke({"messages": [*told, ("user", "Thanks")]})["messages"]
    assert whole is not None
    return {
        "plain": plain.text,
        "usage": [plain.usage_metadata["input_tokens"], plain.usage_metadata["output_tokens"]],
        "cached": plain.usage_metadata["input_token_details"]["cache_read"],
        "calls": calls_of(first),
        "after the calls": calling.invoke([HumanMessage(ASKED), first, *results]).text,
        "streamed": [whole.text, calls_of(whole)],
        "is in pieces": count > 5,
        "image": model.invoke([HumanMessage(picture)]).text,
        "parsed": model.with_structured_output(Report).invoke("Hello").model_dump(),
        "agent": [message.type for message in told] + [told[-1].text],
        "agent again": again[-1].text,
    }


def main(models: list[str]) -> None:
    """Runs everything on every model."""
    found: dict[str, Any] = {
        model: {
            "chat": tried(ChatOpenAI(model=model)),
            "responses": tried(ChatOpenAI(model=model, use_responses_api=True)),
            "messages": tried(ChatAnthropic(model=model)),
        }
        for model in models
    }
    embeddings = OpenAIEmbeddings(model=models[0], check_embedding_ctx_length=False)
    found["embeddings"] = embeddings.embed_documents(["a", "abc"])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
