"""Episodes as trajectories: tokens, and how they were drawn."""

from dataclasses import replace

import pytest

from upturn.dialects import Conversation, Message, ModelAnswer, Text, TokenUsage
from upturn.loop.online import RecordedCall, episode_records
from upturn.records import Call, CallContent, JsonValue, TokenRow, WrittenSpan, fields_json

ROW = TokenRow((1, 2, 3), (WrittenSpan(0, 1, 3, "abc"),), (-0.5, -0.25))


def call(name: str, temperature: float | None, sampling: dict[str, JsonValue] | None = None) -> RecordedCall:
    """A captured call of episode ``run``."""
    recorded = Call(
        name,
        "default",
        "run",
        "default",
        "chat",
        "nano@base",
        "answered",
        is_capture_complete=True,
        temperature=temperature,
        sampling=sampling or {},
    )
    messages = fields_json(Conversation((Message("user", (Text("hello"),)),)))
    answer = fields_json(ModelAnswer(name, "nano", (Text("hi"),), "stop", TokenUsage(1, 2)))
    return RecordedCall(recorded, CallContent(name, "default", messages, answer=answer, tokens=fields_json(ROW)))


@pytest.mark.parametrize(
    ("drawn", "temperature", "sampling"),
    [
        ([(0.7, {"top_p": 0.9}), (0.7, {"top_p": 0.9})], 0.7, {"top_p": 0.9}),
        ([(0.7, {}), (1.0, {})], None, {}),
        ([(1.0, {"top_p": 0.9}), (1.0, {})], None, {}),
        ([(1.0, {}), (None, {})], None, {}),
        ([(0.0, {})], 0.0, {}),
    ],
)
def test_an_episode_has_a_temperature_if_all_calls_were_drawn_alike(
    drawn: list[tuple[float | None, dict[str, JsonValue]]],
    temperature: float | None,
    sampling: dict[str, JsonValue],
) -> None:
    calls = [call(str(number), *how) for number, how in enumerate(drawn)]
    trajectory = episode_records(calls, family="general").trajectory
    assert (trajectory.temperature, trajectory.sampling) == (temperature, sampling)
    assert trajectory.origin == "sampled"
    assert trajectory.model_versions == ("abc",)


@pytest.mark.parametrize(
    ("temperatures", "sampling"),
    [
        ((1.0, 0.5), (-0.5, -0.25, -0.1)),  # at temperature 1 a token is drawn from the model's distribution
        ((0.7, 0.5), ()),  # how the first call's tokens were drawn is not known
        ((0.5, 0.5), ()),
        ((1.0, 1.0), ()),
    ],
)
def test_calls_of_one_row_that_were_drawn_differently_keep_how_each_was_drawn(
    temperatures: tuple[float, float], sampling: tuple[float, ...]
) -> None:
    first, second = (call(str(number), temperature) for number, temperature in enumerate(temperatures))
    drawn = () if temperatures[1] == 1 else (-0.1,)
    row = TokenRow((1, 2, 3, 4, 5), (WrittenSpan(0, 4, 5, "abc"),), (-0.75,), sampling_logprobs=drawn)
    second = RecordedCall(replace(second.call, extends="0"), replace(second.content, tokens=fields_json(row)))
    (joined,) = episode_records([first, second], family="general").trajectory.rows
    assert joined.logprobs == (-0.5, -0.25, -0.75)
    assert joined.sampling_logprobs == sampling
