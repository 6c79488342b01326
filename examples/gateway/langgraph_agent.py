"""A LangGraph agent whose model is the gateway, by URL alone.

pip install langgraph langchain-openai
upturn up                                     # in another terminal
OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none python examples/gateway/langgraph_agent.py
"""

import os

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model=os.environ.get("UPTURN_MODEL", "default"))


def answer(state: MessagesState) -> MessagesState:
    """One call of the model with the whole conversation, so that the gateway recognises the episode."""
    return {"messages": [model.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
agent = graph.compile()

if __name__ == "__main__":
    state = agent.invoke({"messages": [("user", "Move the mail from Ann to the folder archive.")]})
    state = agent.invoke({"messages": [*state["messages"], ("user", "And the one from Ben.")]})
    for message in state["messages"]:
        print(f"{message.type}: {message.content}")
