"""Episodes of another model in the tokens of the trained one."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.loop.trainers.traffic.traffic_pool import VERSIONS, renderer
from upturn.dialects import Conversation, Image, Message, ModelAnswer, Part, Text, TokenUsage
from upturn.loop.online import RecordedCall, episode_records
from upturn.loop.trainers.traffic.rendering import render_episode
from upturn.loop.trainers.traffic.traffic import model_text_of, read_contents
from upturn.models.upstreams import Script
from upturn.pool import Pool
from upturn.pool.calls import StoredCall
from upturn.records import Call, CallContent, Trajectory, fields_json


@pytest.fixture(scope="module")
def script() -> Script:
    return model_text_of(VERSIONS[0]).script


def said(role: str, *parts: Part | str) -> Message:
    return Message(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))  # type: ignore[arg-type]


def call(name: str, messages: list[Message], text: str, extends: str | None = None) -> StoredCall:
    """An answered call of an endpoint, whose tokens are unknown."""
    recorded = Call(name, "default", "run", "default", "chat", "gpt@1", "answered", extends=extends)
    answer = fields_json(ModelAnswer(name, "gpt", (Text(text),), "stop", TokenUsage(5, 2)))
    content = CallContent(name, "default", fields_json(Conversation(tuple(messages))), answer=answer)
    return StoredCall(recorded, content)


TALK = [
    call("1", [said("system", "Be brief."), said("user", "open the door")], "user.open door=1"),
    call("2", [said("user", "and the window")], "user.open window=1", extends="1"),
]


def trajectory_of(calls: list[StoredCall]) -> Trajectory:
    recorded = [RecordedCall(member.call, member.content) for member in calls if member.content is not None]
    return episode_records(recorded, family="general").trajectory


def test_each_answer_is_written_after_its_conversation(script: Script) -> None:
    trajectory = trajectory_of(TALK)
    rendered = render_episode(trajectory, TALK, script)
    assert isinstance(rendered, Trajectory)
    assert rendered.turns == trajectory.turns
    assert (rendered.origin, rendered.temperature) == ("rendered", None)
    (row,) = rendered.rows
    assert renderer().read(row.token_ids).text == (
        "<|task|>Be brief.\nopen the door<|act|>user.open door=1<|end|><|obs|>and the window<|act|>"
        "user.open window=1"
    )
    written = [(span.turn, renderer().read(row.token_ids[span.start : span.stop]).text) for span in row.spans]
    assert written == [(0, "user.open door=1"), (1, "user.open window=1")]
    assert row.logprobs == row.sampling_logprobs == ()


def test_a_failed_call_has_no_tokens(script: Script) -> None:
    failed = replace(TALK[1].call, status="failed")
    calls = [TALK[0], StoredCall(failed, TALK[1].content)]
    rendered = render_episode(trajectory_of(calls), calls, script)
    assert isinstance(rendered, Trajectory)
    assert [len(row.spans) for row in rendered.rows] == [1]


def test_what_cannot_be_rendered_says_why(script: Script) -> None:
    deleted = [TALK[0], StoredCall(TALK[1].call, None)]
    assert render_episode(trajectory_of(TALK), deleted, script) == "deleted"
    assert render_episode(trajectory_of(TALK), [], script) == "deleted"
    image = [call("1", [said("user", Image(url="https://a/b.png"))], "user.look")]
    assert render_episode(trajectory_of(image), image, script) == "unwritable"
    elsewhere = [call("2", [said("user", "and now")], "user.go", extends="other")]
    assert render_episode(trajectory_of(elsewhere), elsewhere, script) == "unwritable"


def test_only_episodes_without_own_tokens_are_rendered(tmp_path: Path) -> None:
    records = episode_records([RecordedCall(*member) for member in TALK], family="general")  # type: ignore[arg-type]
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(
            *records, *(member.call for member in TALK), *(member.content for member in TALK if member.content)
        )
        text, name = model_text_of(VERSIONS[0]), records.trajectory.id
        read = read_contents(pool, [name], tenant="default", model_text=text)
        (experience,) = read.experiences
        assert experience.trajectory.origin == "rendered"
        assert [len(row.spans) for row in experience.trajectory.rows] == [2]
        own = read_contents(pool, [name], tenant="default", model_text=text, is_rendered=False)
        assert (own.experiences, own.lost) == ([], {"foreign": 1})
