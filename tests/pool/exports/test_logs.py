"""``tests/data/pool/inspect_fields.json`` has the fields of inspect-ai 0.3.285, which reads the file."""

import io
import json
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from upturn.pool import Pool
from upturn.pool.exports import LOGS, ChatSource
from upturn.records import (
    Action,
    Evaluation,
    Feedback,
    GateResult,
    Observation,
    Task,
    Tool,
    Trajectory,
    Turn,
    Usage,
)

FIELDS = json.loads((Path(__file__).parents[2] / "data" / "pool" / "inspect_fields.json").read_text())
MOVE = Tool("mail", "move", "Moves a mail.", {"id": {"type": "integer"}}, ("id",))
NOW = 1_000_000.0


@pytest.fixture
def filled(pool: Pool) -> Pool:
    """Two attempts at a task, one of them broken, and one of another tenant."""
    task = Task("t/1", "Ask ann@corp.de.", "mail", "desk", episode="e")
    turns = (
        Turn(Observation("Move it."), "", Action("mail", "move", {"id": 3}, thought="why")),
        Turn(Observation("none", "not_found"), "", Action("user", "answer", {"text": "Sorry."})),
    )
    good = Trajectory(
        "a", task.id, "nano@1", turns, Observation("bye"), "finished", "sampled", usage=Usage(30, 12, 4.0)
    )
    broken = Trajectory("b", task.id, "big@2", (), Observation(""), "model_error", "sampled", error="no answer")
    gates = (GateResult("untouched", False, "mail 4 changed"), GateResult("done", True))
    scored = Evaluation("e1", task.id, "a", "desk/1", "failure", gates, {"done": 0.5}, {"error": 1.0}, 0.25)
    pool.append(task, good, broken, scored, Evaluation("e2", task.id, "b", "desk/1", "missing", (), {}, {}, None))
    foreign = Task("x", "canary", "mail", "desk", tenant="canary tenant")
    turn = Turn(Observation("canary"), "canary", Action("user", "answer"))
    pool.append(foreign, Trajectory("x", "x", "nano@1", (turn,), Observation(""), "finished", "rendered"))
    pool.append(Feedback("f", "trajectory", "x", "thumbs", 1.0, tenant="canary tenant", comment="canary"))
    return pool


def write(pool: Pool, name: str, **options: Any) -> bytes:
    source = ChatSource(pool, tenant="default", tools_of=lambda _: (MOVE,), **options)
    file, seen = io.BytesIO(), list[None]()
    count = LOGS[name].write(source, file, NOW, lambda: seen.append(None))
    assert count == len(seen)
    return file.getvalue()


def check(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Whether Inspect's class has these fields, and needs no further ones."""
    assert set(FIELDS[name]["required"]) <= value.keys() <= set(FIELDS[name]["known"]), name
    return value


def test_an_inspect_log_has_the_files_and_fields_that_inspect_reads(filled: Pool) -> None:
    archive = ZipFile(io.BytesIO(write(filled, "inspect")))
    names = [info.filename for info in archive.infolist() if info.compress_type == ZIP_DEFLATED]
    samples = ["samples/t/1_epoch_1.json", "samples/t/1_epoch_2.json"]
    assert names == ["_journal/start.json", *samples, "summaries.json", "header.json"]
    content = {name: json.loads(archive.read(name)) for name in names}
    start, header = check("LogStart", content["_journal/start.json"]), check("EvalLog", content["header.json"])
    for spec in (start["eval"], header["eval"]):
        check("EvalDataset", check("EvalSpec", spec)["dataset"])
    assert (header["version"], header["status"], header["eval"]["dataset"]["samples"]) == (2, "success", 2)
    assert header["eval"]["created"] == "1970-01-12T13:46:40+00:00"
    assert header["eval"]["model"] == "several agents"
    [score] = check("EvalResults", header["results"])["scores"]
    assert check("EvalScore", score)["metrics"]["mean"]["value"] == 0.25
    assert (score["scored_samples"], score["unscored_samples"]) == (1, 1)
    check("EvalPlan", header["plan"])
    check("EvalStats", header["stats"])
    for summary in content["summaries.json"]:
        check("EvalSampleSummary", summary)
    assert [summary["epoch"] for summary in content["summaries.json"]] == [1, 2]
    assert content["summaries.json"][1]["error"] == "no answer"


def test_a_sample_of_inspect_has_the_messages_and_the_score(filled: Pool) -> None:
    archive = ZipFile(io.BytesIO(write(filled, "inspect")))
    sample = check("EvalSample", json.loads(archive.read("samples/t/1_epoch_1.json")))
    system_free = sample["messages"]
    classes = {"user": "ChatMessageUser", "assistant": "ChatMessageAssistant", "tool": "ChatMessageTool"}
    for message in system_free:
        check(classes[message["role"]], message)
    call = {"id": "call_0", "type": "function", "function": "mail.move", "arguments": {"id": 3}}
    error = "error not_found: none"
    assert system_free == [
        {"role": "user", "content": "Move it."},
        {"role": "assistant", "content": "why", "tool_calls": [check("ToolCall", call)]},
        {
            "role": "tool",
            "tool_call_id": "call_0",
            "function": "mail.move",
            "content": error,
            "error": check("ToolCallError", {"type": "unknown", "message": error}),
        },
        {"role": "assistant", "content": "Sorry."},
        {"role": "user", "content": "bye"},
    ]
    assert sample["input"] == "Ask <EMAIL>."
    assert check("ModelOutput", sample["output"])["choices"] == [
        {"message": {"role": "assistant", "content": "Sorry."}, "stop_reason": "stop"}
    ]
    score = check("Score", sample["scores"]["desk/1"])
    assert (score["value"], score["explanation"]) == (0.25, "untouched: mail 4 changed")
    tokens = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    assert sample["model_usage"] == {"nano@1": check("ModelUsage", tokens)}
    broken = check("EvalSample", json.loads(archive.read("samples/t/1_epoch_2.json")))
    assert (broken["messages"], broken["scores"], broken["model_usage"]) == ([], {}, {})
    assert check("EvalError", broken["error"])["message"] == "no answer"


def test_equal_exports_are_equal_files_and_an_empty_one_is_whole(filled: Pool, tmp_path: Path) -> None:
    assert write(filled, "inspect") == write(filled, "inspect")
    with Pool.open(tmp_path / "empty.db") as pool:
        archive = ZipFile(io.BytesIO(write(pool, "inspect")))
        assert json.loads(archive.read("summaries.json")) == []
        assert write(pool, "otlp") == b""


def attributes(holder: dict[str, Any]) -> dict[str, Any]:
    """By key, with the values of OTLP's AnyValue."""

    def value(of: dict[str, Any]) -> Any:
        [(kind, inner)] = of.items()
        if kind == "arrayValue":
            return [value(item) for item in inner["values"]]
        return int(inner) if kind == "intValue" else inner

    return {pair["key"]: value(pair["value"]) for pair in holder["attributes"]}


def test_a_trace_has_the_agent_its_messages_and_its_calls(filled: Pool) -> None:
    lines = [json.loads(line) for line in write(filled, "otlp").splitlines()]
    assert len(lines) == 2
    resource = lines[0]["resourceSpans"][0]
    assert attributes(resource["resource"]) == {"service.name": "upturn", "upturn.tenant": "default"}
    agent, *inner = resource["scopeSpans"][0]["spans"]
    assert [span["name"] for span in (agent, *inner)] == [
        "invoke_agent nano",
        "chat nano@1",
        "execute_tool mail.move",
        "chat nano@1",
    ]
    assert {span["parentSpanId"] for span in inner} == {agent["spanId"]}
    assert {(len(span["traceId"]), len(span["spanId"])) for span in (agent, *inner)} == {(32, 16)}
    assert len({span["spanId"] for span in (agent, *inner)}) == 4
    ends = [int(span["endTimeUnixNano"]) for span in (agent, *inner)]
    assert ends[0] == ends[-1] == 1_000 * 10**9  # when it was recorded
    assert ends[0] - int(agent["startTimeUnixNano"]) == 3 * (4 * 10**9 // 3)
    assert [span["startTimeUnixNano"] for span in inner[1:]] == [span["endTimeUnixNano"] for span in inner[:-1]]
    whole = attributes(agent)
    assert (whole["gen_ai.operation.name"], whole["gen_ai.conversation.id"]) == ("invoke_agent", "e")
    assert (whole["gen_ai.usage.input_tokens"], whole["gen_ai.usage.output_tokens"]) == (30, 12)
    assert json.loads(whole["gen_ai.tool.definitions"])[0]["function"]["name"] == "mail.move"
    [event] = agent["events"]
    assert event["name"] == "gen_ai.evaluation.result"
    assert attributes(event) == {
        "gen_ai.evaluation.name": "desk/1",
        "gen_ai.evaluation.score.label": "failure",
        "gen_ai.evaluation.score.value": 0.25,
    }
    chat, tool, last = map(attributes, inner)
    assert json.loads(chat["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Move it."}]}
    ]
    call = {"type": "tool_call", "id": "call_0", "name": "mail.move", "arguments": {"id": 3}}
    assert json.loads(chat["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "why"}, call], "finish_reason": "tool_calls"}
    ]
    assert (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.id"]) == ('{"id": 3}', "call_0")
    assert tool["gen_ai.tool.call.result"] == "error not_found: none"
    assert (tool["error.type"], inner[1]["status"]) == ("tool_error", {"code": 2})
    assert json.loads(last["gen_ai.input.messages"])[-1]["parts"][0]["type"] == "tool_call_response"
    broken = lines[1]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert len(broken) == 1
    assert broken[0]["status"] == {"code": 2, "message": "no answer"}


def test_collectors_read_the_traces(filled: Pool) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    for line in write(filled, "otlp").splitlines():
        request = json_format.Parse(line, service.ExportTraceServiceRequest())
        assert request.resource_spans[0].scope_spans[0].spans[0].name.startswith("invoke_agent")


@pytest.mark.parametrize("name", LOGS)
def test_a_log_has_no_personal_data_and_no_words_of_another_tenant(filled: Pool, name: str) -> None:
    def text(**options: Any) -> str:
        written = write(filled, name, **options)
        if name != "inspect":
            return written.decode()
        archive = ZipFile(io.BytesIO(written))
        return "".join(archive.read(member).decode() for member in archive.namelist())

    assert "canary" not in text()
    assert "corp.de" not in text()
    assert "canary" not in text(is_anonymised=False)
    assert ("corp.de" in text(is_anonymised=False)) == (name == "inspect")
