"""A foreign model's conversation within a budget: messages, as they are sent."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from upturn.agents import EndpointAgent, LimitReachedError, Recorder
from upturn.agents.context import Budget
from upturn.agents.endpoint import GRAMMAR, estimated_tokens
from upturn.errors import ConfigError
from upturn.models import ChatEndpoint, Completion, GenerationRequest, Message
from upturn.records import Observation, Turn

SYSTEM = estimated_tokens(GRAMMAR) + 12
"""The system message and what surrounds it and the instruction."""


class Listening:
    """Answers the same and keeps what it was sent."""

    def __init__(self, answer: str = "mail.list") -> None:
        self.sent: list[list[Message]] = []
        self._answer = answer

    async def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int) -> Completion:
        self.sent.append(list(messages))
        return Completion(self._answer, 0, 0, "m")


def agent(endpoint: Listening, tokens: int) -> EndpointAgent:
    budget = Budget(tokens, window_turns=2, observation_tokens=110, summary_tokens=12, low_mark=0.6)
    found = cast(ChatEndpoint, endpoint)
    return EndpointAgent(found, prompt="", temperature=0.0, max_tokens=20, context=budget)


def size(messages: Sequence[Message]) -> int:
    return sum(estimated_tokens(message.content) + 6 for message in messages)


def conversation(made: EndpointAgent, turns: int, instruction: str = "Do it.", answer: str = "z" * 300) -> None:
    session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    done: list[Turn] = []
    seen = Observation(instruction)
    for _ in range(turns):
        reply = asyncio.run(made.act(tuple(done), seen, session))
        done.append(Turn(seen, reply.text, reply.action))
        seen = Observation(answer)


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
    asked = asyncio.run(agent(Listening(answer), SYSTEM + 602).act((), Observation("Do it."), session)).action
    wanted = None if answer.startswith("I file it:") else ("mail", "move", {"id": "m1"})
    assert wanted == (None if asked is None else (asked.target, asked.operation, asked.parameters))


def test_messages_stay_within_the_budget_and_mostly_extend_earlier_ones() -> None:
    endpoint, tokens = Listening(), SYSTEM + 602
    conversation(agent(endpoint, tokens), 30)
    assert max(size(messages) for messages in endpoint.sent) + 20 <= tokens
    assert all(messages[0] == Message("system", GRAMMAR) for messages in endpoint.sent)
    assert all(messages[1].content.startswith("Do it.") for messages in endpoint.sent)
    assert [message.role for message in endpoint.sent[-1][1:]] == ["user", "assistant"] * (
        (len(endpoint.sent[-1]) - 2) // 2
    ) + ["user"]
    rewritten = [
        place
        for place in range(1, 30)
        if endpoint.sent[place][: len(endpoint.sent[place - 1])] != endpoint.sent[place - 1]
    ]
    # 2 tokens of instruction, then 3 + 100 + 12 a turn: 582 are left, and five turns fit. Rewriting leaves two.
    assert rewritten[0] == 6
    assert len(rewritten) <= 10


def test_without_a_budget_the_whole_conversation_is_sent() -> None:
    endpoint = Listening()
    conversation(EndpointAgent(cast(ChatEndpoint, endpoint), prompt="", temperature=0.0, max_tokens=20), 30)
    assert len(endpoint.sent[-1]) == 1 + 29 * 2 + 1


def test_an_instruction_without_room_reaches_the_limit() -> None:
    with pytest.raises(LimitReachedError):
        conversation(agent(Listening(), SYSTEM + 200), 1, "x" * 600)


def test_a_budget_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"context_tokens = {SYSTEM + 129} is too small: prompt and tools take"):
        agent(Listening(), SYSTEM + 129)
    agent(Listening(), SYSTEM + 130)
