"""A LangGraph agent with two tools: it searches a mailbox, reads a mail, and says the number in it.

    pip install langgraph langchain-openai
    echo '{"task": "what figure has ann.lee under report oslo?"}' | python agent.py

The mailbox is `mails.json` in the working folder. The model is whatever `OPENAI_BASE_URL` serves.
"""

import json
import sys
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def desk(model: ChatOpenAI, folder: Path) -> CompiledStateGraph:
    """The graph: the model, its tools, and back to the model until it calls none."""
    mails: list[dict[str, str]] = json.loads((folder / "mails.json").read_text(encoding="utf-8"))

    @tool
    def search(sender: str = "", subject: str = "") -> str:
        """Lists the mails of a sender, or with these words in the subject, or both."""
        lines = [
            f"{mail['id']} {mail['at']} {mail['sender']}: {mail['subject']}"
            for mail in mails
            if sender in mail["sender"] and subject in mail["subject"]
        ]
        return "\n".join(lines) or "no mails"

    @tool
    def read(id: str) -> str:
        """Shows the text of a mail."""
        return next((mail["text"] for mail in mails if mail["id"] == id), f"no mail {id}")

    tools = [search, read]
    caller = model.bind_tools(tools)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [caller.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def answer(graph: CompiledStateGraph, question: str) -> str:
    """The last message of the graph."""
    return str(graph.invoke({"messages": [("user", question)]})["messages"][-1].content)


def act(attempt: Any) -> str:
    """The same in a process that has imported this file already."""
    model = ChatOpenAI(model="gpt-4.1-mini", base_url=attempt.base_url, api_key=attempt.api_key)
    return answer(desk(model, Path(attempt.folder)), attempt.task)


if __name__ == "__main__":
    print(answer(desk(ChatOpenAI(model="gpt-4.1-mini"), Path()), json.load(sys.stdin)["task"]))
