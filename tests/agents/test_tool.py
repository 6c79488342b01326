import asyncio
from collections.abc import Sequence

import pytest

from upturn.agents import CallableAgent, Recorder, Reply
from upturn.agents.tool import AgentFunction
from upturn.models import GenerationRequest
from upturn.records import Action, Observation, Turn


def ask(function: AgentFunction, turns: Sequence[Turn] = ()) -> Reply:
    session = Recorder(None, GenerationRequest((), 0, (), 1.0, "s", (0, 0), 0))
    return asyncio.run(CallableAgent(function).act(turns, Observation("now"), session))


def test_a_function_answers_with_an_action_or_with_text() -> None:
    assert ask(lambda *_: Action("mail", "list", {"folder": "in"})) == Reply(
        "mail.list folder=in", Action("mail", "list", {"folder": "in"})
    )
    assert ask(lambda *_: "mail.list folder=in").action == Action("mail", "list", {"folder": "in"})
    assert ask(lambda *_: "I do not know") == Reply("I do not know", None)


def test_a_function_may_be_async_and_sees_instruction_turns_and_observation() -> None:
    seen: list[object] = []

    async def function(instruction: str, turns: Sequence[Turn], observation: Observation) -> str:
        seen.extend([instruction, len(turns), observation.text])
        return "user.finish"

    assert ask(function).action == Action("user", "finish")
    assert ask(function, [Turn(Observation("first"), "x.y", Action("x", "y"))]).action is not None
    assert seen == ["now", 0, "now", "first", 1, "now"]


def test_an_action_outside_the_grammar_still_reaches_the_environment() -> None:
    assert ask(lambda *_: Action("my mail", "list")) == Reply("my mail.list", Action("my mail", "list"))


def test_any_other_answer_is_refused() -> None:
    with pytest.raises(TypeError, match="must return an Action or a str, got 3"):
        ask(lambda *_: 3)  # type: ignore[arg-type]
