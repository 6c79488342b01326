import gzip
import json
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from upturn.errors import ConfigError, IngestError, StoreError, UnknownNameError
from upturn.pool import Pool
from upturn.pool.ingestion import IngestOptions, ingest
from upturn.pool.ingestion.formats import json_text
from upturn.pool.quality import inspect
from upturn.pool.statistics import counts
from upturn.records import Action, Evaluation, Observation, Turn

DATA = Path(__file__).parents[1] / "data" / "pool"
TAU = DATA / "tau_bench_small.json"
CHATS = DATA / "chats_small.jsonl"
TAU_OPTIONS = IngestOptions("tau-bench", agent="gpt-4o")
CHAT_OPTIONS = IngestOptions("chat")


def lines_of(path: Path, *lines: object) -> Path:
    """Writes a JSONL file; bytes are written unchanged, everything else as JSON."""
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def talk(answer: str = "hi", **extra: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": answer}], **extra}


def test_tau_bench_rows_become_tasks_trajectories_and_evaluations(pool: Pool) -> None:
    report = ingest(pool, TAU, TAU_OPTIONS)
    assert (report.lines, report.added, report.known, report.quarantined) == (6, 6, 0, ())
    assert counts(pool, tenant="default") == (2, 0, 6, 6, 0)
    tasks = list(pool.tasks(tenant="default"))
    assert [task.instruction for task in tasks] == [
        "You are Rita and want book B7 renewed.",
        "You are Rita and want to read Emma.",
    ]
    assert {task.family for task in tasks} == {"library"}
    assert tasks[0].context["source_task"] == "0"
    assert tasks[0].context["gold_actions"] == [{"name": "renew_loan", "kwargs": {"book": "B7"}}]
    first = next(pool.experiences(tenant="default"))
    policy = "# Library agent policy\n\nYou help readers with loans. Ask before you change anything."
    assert first.trajectory.turns[0] == Turn(
        Observation(f"[system]\n{policy}\n\n[user]\nPlease renew my book B7."),
        "",
        Action("tool", "get_loan", {"book": "B7"}),
        message='{"messages":[["system",84],["user",24]]}',
    )
    assert first.trajectory.turns[1].action == Action("user", "message")
    assert first.trajectory.turns[1].text == "It is due on 1 June. Shall I renew it?"
    assert first.trajectory.final_observation == Observation("###STOP###")
    assert (first.trajectory.origin, first.trajectory.rows) == ("rendered", ())
    assert first.trajectory.agent_version == "imported:gpt-4o@tau-bench"
    assert isinstance(first.evaluation, Evaluation)
    assert (first.evaluation.verdict, first.evaluation.score) == ("success", 1.0)


def test_broken_run_is_stored_as_a_trajectory(pool: Pool) -> None:
    ingest(pool, TAU, TAU_OPTIONS)
    broken = [point for point in pool.experiences(tenant="default") if not point.trajectory.turns]
    assert [(point.task.context["source_task"], point.trajectory.attempt) for point in broken] == [("1", 2)]
    assert (broken[0].trajectory.outcome, broken[0].trajectory.error) == ("model_error", "Connection reset")
    assert [gate.name for gate in inspect(broken[0]).gates if not gate.is_passed] == ["complete"]


def test_chat_lines_become_trajectories(pool: Pool) -> None:
    report = ingest(pool, CHATS, CHAT_OPTIONS)
    assert (report.lines, report.added, report.quarantined) == (5, 5, ())
    points = list(pool.experiences(tenant="default"))
    verdicts = [(point.evaluation.verdict, point.evaluation.score) for point in points if point.evaluation]
    assert verdicts == [("success", 1.0), ("success", 0.5), ("failure", 0.0), ("missing", None), ("missing", None)]
    assert [point.task.family for point in points] == ["sums", "sums", "sums", "chat", "talk"]
    assert len({point.task.id for point in points}) == 3
    assert points[0].trajectory.agent_version == "imported:small-1@chat"
    assert points[3].trajectory.agent_version == "imported:unknown@chat"
    send, copy, *_ = turns = points[3].trajectory.turns
    assert send.action == Action("tool", "send", {"to": "ruth.klein@gmail.com", "text": "Late."})
    assert copy.action == Action("tool", "send_copy", {"arguments": "not json"})
    assert [turn.call for turn in turns[:3]] == [0, 1, 0]
    assert [turn.observation.text for turn in turns[1:3]] == ["sent\n[image_url]", ""]
    assert [turn.action for turn in points[4].trajectory.turns] == [None, Action("user", "message")]


@pytest.mark.parametrize(("path", "options"), [(TAU, TAU_OPTIONS), (CHATS, CHAT_OPTIONS)])
def test_same_file_twice_adds_nothing(pool: Pool, tmp_path: Path, path: Path, options: IngestOptions) -> None:
    first = ingest(pool, path, options)
    before = counts(pool, tenant="default")
    copy = tmp_path / "another-name"
    shutil.copy(path, copy)
    for repeated in (path, copy):
        report = ingest(pool, repeated, options)
        assert (report.added, report.known, report.is_repeated) == (0, first.added, True)
    assert counts(pool, tenant="default") == before


def test_overlapping_files_add_only_what_is_new(pool: Pool, tmp_path: Path) -> None:
    first = lines_of(tmp_path / "a.jsonl", talk("one"), talk("two"), talk("three"))
    second = lines_of(tmp_path / "b.jsonl", talk("two"), talk("three"), talk("four"))
    ingest(pool, first, CHAT_OPTIONS)
    report = ingest(pool, second, CHAT_OPTIONS)
    assert (report.added, report.known, report.quarantined) == (1, 2, ())


def test_equal_conversations_without_trial_are_separate_trajectories(pool: Pool, tmp_path: Path) -> None:
    report = ingest(pool, lines_of(tmp_path / "a.jsonl", talk(), talk(), talk()), CHAT_OPTIONS)
    assert report.added == 3
    assert [trajectory.attempt for trajectory in pool.trajectories(tenant="default")] == [0, 1, 2]
    numbered = lines_of(tmp_path / "b.jsonl", talk("x", trial=4), talk("x", trial=4))
    report = ingest(pool, numbered, CHAT_OPTIONS)
    assert (report.added, report.known) == (1, 1)


def test_interrupted_import_is_completed_by_the_next(pool: Pool, tmp_path: Path) -> None:
    part = lines_of(tmp_path / "part.jsonl", *(talk(str(index), model="m") for index in range(250)))
    whole = lines_of(tmp_path / "whole.jsonl", *(talk(str(index), model="m") for index in range(450)))
    ingest(pool, part, CHAT_OPTIONS)
    report = ingest(pool, whole, CHAT_OPTIONS)
    assert (report.added, report.known) == (200, 250)


def test_each_tenant_has_its_own_copy(pool: Pool) -> None:
    for tenant in ("ada", "bob"):
        assert ingest(pool, TAU, TAU_OPTIONS._replace(tenant=tenant)).added == 6
    assert counts(pool, tenant="ada") == counts(pool, tenant="bob") == (2, 0, 6, 6, 0)


def test_trajectories_join_the_stored_task_despite_another_opening(pool: Pool, tmp_path: Path) -> None:
    other = talk("x", task_id="t")
    other["messages"][0]["content"] = "good morning"
    ingest(pool, lines_of(tmp_path / "a.jsonl", talk("x", task_id="t")), CHAT_OPTIONS)
    report = ingest(pool, lines_of(tmp_path / "b.jsonl", other), CHAT_OPTIONS)
    assert (report.added, report.quarantined) == (1, ())
    assert [task.instruction for task in pool.tasks(tenant="default")] == ["hello"]


def test_same_conversation_with_another_reward_is_quarantined_alone(pool: Pool, tmp_path: Path) -> None:
    options = CHAT_OPTIONS._replace(agent="m")
    ingest(pool, lines_of(tmp_path / "a.jsonl", talk("y", reward=1.0), talk("x", reward=1.0)), options)
    regraded = lines_of(tmp_path / "b.jsonl", talk("y", reward=1.0), talk("x", reward=0.0), talk("z", reward=1.0))
    report = ingest(pool, regraded, options)
    assert (report.added, report.known) == (1, 1)
    assert [line.line for line in report.quarantined] == [2]
    assert "other content" in report.quarantined[0].reason


DEEP: Any = "x"
for _ in range(120):
    DEEP = [DEEP]

BAD_LINES: Sequence[tuple[object, str]] = [
    (b"{not json", "not JSON"),
    (b'{"messages": "\xff\xfe"}', "not JSON"),
    (b'{"messages": [{"role": "assistant", "content": "\\ud800"}]}', "not JSON"),
    (b'{"messages": [], "reward": NaN}', "not JSON"),
    (b"[" * 5000 + b"]" * 5000, "not JSON"),
    ([1, 2], "must be an object"),
    ("text", "must be an object"),
    ({}, "messages must be a list, got null"),
    ({"messages": {}}, "messages must be a list, got an object"),
    ({"messages": []}, "no assistant message"),
    ({"messages": [{"role": "user", "content": "hello"}]}, "no assistant message"),
    ({"messages": ["hello"]}, "message 0 must be an object, got text"),
    ({"messages": [{"content": "hello"}]}, "message 0 has role None"),
    ({"messages": [{"role": ["user"], "content": "hello"}]}, "message 0 has role"),
    ({"messages": [{"role": "robot", "content": "hello"}]}, "message 0 has role 'robot'"),
    ({"messages": [{"role": "assistant", "content": 7}]}, "got a number"),
    ({"messages": [{"role": "assistant", "content": [7]}]}, "content part of message 0"),
    ({"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]}, "tool_calls of message 0 must be a list"),
    ({"messages": [{"role": "assistant", "tool_calls": ["call"]}]}, "no function name"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": None}}]}]}, "no function name"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": '{"n": 1e999}'}]}]}, "finite"),
    (talk(reward="1"), "reward must be a number"),
    (talk(reward=2), "reward must be a number"),
    (talk(reward=-0.5), "reward must be a number"),
    (talk(success=1), "success must be true, false or null"),
    (talk(trial=-1), "trial must be a whole number"),
    (talk(trial=2**40), "trial must be a whole number"),
    (talk(trial=True), "trial must be a whole number"),
    (talk(task_id=""), "task_id must be"),
    (talk(task_id=["t"]), "task_id must be"),
    (talk(family="a\nb"), "family must be"),
    (talk(model="m" * 201), "model must be"),
]


def test_malformed_lines_are_quarantined_and_the_rest_is_stored(pool: Pool, tmp_path: Path) -> None:
    lines: list[object] = [talk("first"), b""]
    for number, (line, _) in enumerate(BAD_LINES):
        lines += [line, talk(f"good {number}")]
    path = lines_of(tmp_path / "a.jsonl", *lines)
    report = ingest(pool, path, CHAT_OPTIONS)
    assert report.added == 1 + len(BAD_LINES)
    assert [bad.line for bad in report.quarantined] == list(range(3, 3 + 2 * len(BAD_LINES), 2))
    for bad, (_, reason) in zip(report.quarantined, BAD_LINES, strict=True):
        assert reason in bad.reason
    repeated = ingest(pool, path, CHAT_OPTIONS)
    assert (repeated.added, repeated.known, repeated.quarantined) == (0, report.added, report.quarantined)


def test_unusual_but_usable_lines_are_stored(pool: Pool, tmp_path: Path) -> None:
    nested = talk("nested")
    nested["messages"][1]["tool_calls"] = [{"function": {"name": "f", "arguments": {"deep": DEEP}}}]
    big_integer = talk("big")
    big_integer["messages"][1]["tool_calls"] = [{"function": {"name": "f", "arguments": {"n": 10**40}}}]
    lines = (
        b"\xef\xbb\xbf" + json.dumps(talk("bom")).encode(),
        nested,
        big_integer,
        talk("zero \x00 byte"),
        talk("", other="ignored", reward=True, success=None),
        talk("emoji 🙂", task_id=12, model="a@b"),
    )
    report = ingest(pool, lines_of(tmp_path / "a.jsonl", *lines), CHAT_OPTIONS)
    assert report.quarantined == ()
    assert report.added == len(lines)
    assert len(list(pool.experiences(tenant="default"))) == len(lines)
    assert "imported:a_b@chat" in {trajectory.agent_version for trajectory in pool.trajectories(tenant="default")}


def test_too_long_line_is_quarantined(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "LONGEST_LINE", 300)
    path = lines_of(tmp_path / "a.jsonl", talk("one"), talk("x" * 2000), talk("two"))
    report = ingest(pool, path, CHAT_OPTIONS)
    assert report.added == 2
    assert [(bad.line, "longer than 300 bytes" in bad.reason) for bad in report.quarantined] == [(2, True)]


def tau_row(**changes: object) -> Mapping[str, object]:
    return {"task_id": 0, "trial": 0, "reward": 1.0, "traj": talk()["messages"], "info": {}} | changes


def test_malformed_tau_bench_rows_are_quarantined(pool: Pool, tmp_path: Path) -> None:
    rows = [
        tau_row(),
        7,
        tau_row(task_id=None),
        {"task_id": 0, "reward": 1.0},
        tau_row(reward="high"),
        tau_row(traj=None),
        tau_row(info=[], trial=1, reward=None),
        tau_row(info={"task": {"instruction": ["a"]}}),
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    report = ingest(pool, path, TAU_OPTIONS)
    assert report.added == 2
    assert [line.line for line in report.quarantined] == [2, 3, 4, 5, 6, 8]
    verdicts = [row.verdict for row in pool.selected(tenant="default")]
    assert verdicts == ["success", "missing"]


@pytest.mark.parametrize(
    ("content", "file_format", "message"),
    [
        (b"[", "tau-bench", "not JSON"),
        (b"[{", "tau-bench", "not JSON"),
        (b'{"a": 1}', "tau-bench", "--format chat"),
        (b"[]", "tau-bench", "no conversations"),
        (b"", "chat", "no conversations"),
        (b"\n \n", "chat", "no conversations"),
        (gzip.compress(b"", mtime=0), "chat", "no conversations"),
        (b"PK\x03\x04rest", "tau-bench", "no JSON array"),
        ("{}".encode("utf-16"), "chat", "is UTF-16 text; save it as UTF-8 first"),
        (b"SQLite format 3\0", "chat", "is a SQLite database"),
    ],
)
def test_unreadable_file_is_an_error(
    pool: Pool, tmp_path: Path, content: bytes, file_format: str, message: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(IngestError, match=message):
        ingest(pool, path, IngestOptions(file_format))


def tau_file(path: Path, *rows: str, end: str = "]") -> Path:
    path.write_text("[" + ",\n".join(rows) + end)
    return path


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (json.dumps(tau_row(reward=math.nan)), "reward must be a number from 0 to 1 or null, got nan"),
        (json.dumps(tau_row(traj=talk("\ud800")["messages"])), "not JSON: .*surrogates"),
        (json.dumps(tau_row(task_id="\ud800")), "not JSON: .*surrogates"),
        (json.dumps(tau_row(info={"task": {"instruction": "\udfff"}}, trial=3)), "not JSON: .*surrogates"),
        (json.dumps(tau_row(info={"task": {"actions": [{"n": math.inf}]}}, task_id=9)), "finite"),
    ],
)
def test_invalid_tau_bench_row_is_quarantined_alone(pool: Pool, tmp_path: Path, bad: str, reason: str) -> None:
    path = tau_file(tmp_path / "a.json", json.dumps(tau_row()), bad, json.dumps(tau_row(trial=1)))
    report = ingest(pool, path, TAU_OPTIONS)
    assert (report.lines, report.added) == (3, 2)
    assert [line.line for line in report.quarantined] == [2]
    assert re.search(reason, report.quarantined[0].reason)


@pytest.mark.parametrize("end", [', {"task_id": 0, "tr', "", ",", '] "more"', ", " + "[" * 100_000])
def test_truncated_tau_bench_file_keeps_its_complete_rows(pool: Pool, tmp_path: Path, end: str) -> None:
    path = tau_file(tmp_path / "a.json", json.dumps(tau_row()), json.dumps(tau_row(trial=1)), end=end)
    report = ingest(pool, path, TAU_OPTIONS)
    assert report.added == 2
    assert "the rest of the file is not read" in report.quarantined[-1].reason


def test_invalid_bytes_affect_only_their_row(pool: Pool, tmp_path: Path) -> None:
    path = tau_file(
        tmp_path / "a.json", json.dumps(tau_row()), json.dumps(tau_row(trial=1, traj=talk("?")["messages"]))
    )
    path.write_bytes(path.read_bytes().replace(b'"?"', b'"\xff"'))
    report = ingest(pool, path, TAU_OPTIONS)
    assert (report.added, [line.line for line in report.quarantined]) == (1, [2])


def test_full_disk_quarantines_no_line(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines_of(tmp_path / "a.jsonl", talk("one"), talk("two"))

    def full(*_: object, **__: object) -> int:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(pool, "submit", full)
        with pytest.raises(StoreError, match="the disk is full"):
            ingest(pool, path, CHAT_OPTIONS)
    report = ingest(pool, path, CHAT_OPTIONS)
    assert (report.added, report.quarantined, report.is_repeated) == (2, (), False)


def test_unusable_names_are_reported_together(pool: Pool) -> None:
    options = IngestOptions("chat", tenant="", family="a\nb", agent="\udcff")
    with pytest.raises(ConfigError) as caught:
        ingest(pool, CHATS, options)
    assert caught.value.problems == (
        "tenant must be 1 to 200 printable characters, got ''",
        "family must be 1 to 200 printable characters, got 'a\\nb'",
        "agent must be 1 to 200 printable characters, got '\\udcff'",
    )


def test_file_may_have_any_name(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"chat\xff.jsonl")
    shutil.copy(CHATS, path)
    report = ingest(pool, path, CHAT_OPTIONS)
    assert (report.path, report.added) == (str(tmp_path / "chat?.jsonl"), 5)


def test_missing_file_and_unknown_format_are_errors(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="cannot be read"):
        ingest(pool, tmp_path / "none.json", TAU_OPTIONS)
    with pytest.raises(IngestError, match="cannot be read"):
        ingest(pool, tmp_path, TAU_OPTIONS)
    with pytest.raises(UnknownNameError, match="known: tau-bench, chat"):
        ingest(pool, TAU, IngestOptions("csv"))
