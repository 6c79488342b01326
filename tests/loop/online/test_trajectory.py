"""Episodes as trajectories: tokens, and how they were drawn."""

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
