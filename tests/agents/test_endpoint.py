"""The messages that an endpoint agent sends, with and without a context budget."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from upturn.agents import EndpointAgent, LimitReachedError, Recorder
from upturn.agents.call_form import GRAMMAR
from upturn.agents.context import Budget
from upturn.agents.endpoint import estimated_tokens
from upturn.dialects import Message, ModelAnswer, ModelRequest, Text
from upturn.errors import ConfigError
from upturn.models import ChatEndpoint, GenerationRequest
from upturn.records import Observation, Turn

SYSTEM = estimated_tokens(GRAMMAR) + 12
"""Tokens of the system message, and those around it and around the instruction."""


class FakeEndpoint:
    """Always gives the same answer and records the messages."""

    dialect, model = "chat", "m"

    def __init__(self, answer: str = "mail.list") -> None:
        self.messages: list[list[Message]] = []
        self._answer = answer

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        self.messages.append(list(request.messages))
        return ModelAnswer("", "m", (Text(self._answer),), "stop")


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def agent(endpoint: FakeEndpoint, tokens: int) -> EndpointAgent:
    budget = Budget(tokens, window_turns=2, observation_tokens=110, summary_tokens=12, low_mark=0.6)
    chat = cast(ChatEndpoint, endpoint)
    return EndpointAgent(chat, prompt="", temperature=0.0, max_tokens=20, context=budget)


def size(messages: Sequence[Message]) -> int:
    return sum(estimated_tokens(text_of(message)) + 6 for message in messages)


def converse(agent: EndpointAgent, turns: int, instruction: str = "Do it.", result: str = "z" * 300) -> None:
    session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    history: list[Turn] = []
    observation = Observation(instruction)
    for _ in range(turns):
        reply = asyncio.run(agent.act(tuple(history), observation, session))
        history.append(Turn(observation, reply.text, reply.action))
        observation = Observation(result)


def test_tokens_are_estimated_at_three_bytes_each() -> None:
    assert [estimated_tokens(text) for text in ("", "a", "abc", "abcd", "日本", "\ud800")] == [0, 1, 1, 2, 2, 1]


@pytest.mark.parametrize(
    "answer",
    [
        "I file it.\n`mail.move id=m1`",
        'I file it.\n{"target_app": "mail",\n "operation": "move",\n "parameters": {"id": "m1"}}',
        'I file it. {"name": "mail.move", "arguments": {"id": "m1"}}',
        "I file it: mail.move id=m1",
    ],
)
def test_the_last_line_or_json_is_the_action(answer: str) -> None:
    session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    reply = asyncio.run(agent(FakeEndpoint(answer), SYSTEM + 602).act((), Observation("Do it."), session))
    expected = None if answer.startswith("I file it:") else ("mail", "move", {"id": "m1"})
    action = reply.action
    assert expected == (None if action is None else (action.target, action.operation, action.parameters))


def test_messages_stay_within_the_budget_and_mostly_extend_earlier_ones() -> None:
    endpoint, tokens = FakeEndpoint(), SYSTEM + 602
    converse(agent(endpoint, tokens), 30)
    assert max(size(messages) for messages in endpoint.messages) + 20 <= tokens
    assert all(messages[0] == Message("system", (Text(GRAMMAR),)) for messages in endpoint.messages)
    assert all(text_of(messages[1]).startswith("Do it.") for messages in endpoint.messages)
    assert [message.role for message in endpoint.messages[-1][1:]] == ["user", "assistant"] * (
        (len(endpoint.messages[-1]) - 2) // 2
    ) + ["user"]
    rewritten = [
        turn
        for turn in range(1, 30)
        if endpoint.messages[turn][: len(endpoint.messages[turn - 1])] != endpoint.messages[turn - 1]
    ]
    # 2 tokens of instruction, then 3 + 100 + 12 a turn: five turns fit into 582. Rewriting keeps two.
    assert rewritten[0] == 6
    assert len(rewritten) <= 10


def test_without_a_budget_the_whole_conversation_is_sent() -> None:
    endpoint = FakeEndpoint()
    converse(EndpointAgent(cast(ChatEndpoint, endpoint), prompt="", temperature=0.0, max_tokens=20), 30)
    assert len(endpoint.messages[-1]) == 1 + 29 * 2 + 1


def test_an_instruction_without_room_reaches_the_limit() -> None:
    with pytest.raises(LimitReachedError):
        converse(agent(FakeEndpoint(), SYSTEM + 200), 1, "x" * 600)


def test_a_budget_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"context_tokens = {SYSTEM + 129} is too small: prompt and tools take"):
        agent(FakeEndpoint(), SYSTEM + 129)
    agent(FakeEndpoint(), SYSTEM + 130)
