"""Files of other tools: what each becomes, how its format is detected, and damaged ones."""

import gzip
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zstandard
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from upturn.dialects import Reasoning, Text, ToolCall, ToolResult
from upturn.errors import IngestError, UnknownNameError, UpturnError
from upturn.pool import Experience, Pool, transcript
from upturn.pool.ingestion import IngestOptions, ingest
from upturn.pool.ingestion.formats import READERS, inspect_log, span_groups
from upturn.pool.ingestion.formats.otlp_protobuf import read_request

FILES = Path(__file__).parents[2] / "data" / "pool" / "formats"
CALLED = [
    "system: Be brief.",
    "user: What does the lamp cost?",
    'get_price({"article": "lamp"})',
    "= 12 EUR",
    "12 EUR.",
]


def said(experience: Experience) -> list[str]:
    """The messages in short."""
    texts = []
    for message in transcript(experience.trajectory).messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                texts.append(f"{part.name}({part.arguments})")
            elif isinstance(part, ToolResult):
                texts.append("= " + "".join(inner.text for inner in part.parts if isinstance(inner, Text)))
            elif isinstance(part, Reasoning):
                texts.append(f"({part.text})")
            elif isinstance(part, Text):
                texts.append(part.text if message.role == "assistant" else f"{message.role}: {part.text}")
    return texts


CASES: Sequence[tuple[str, str, int, list[tuple[str, str, str, float | None, list[str]]]]] = [
    (
        "otlp_genai.jsonl",
        "otlp",
        1,
        [
            ("traces", "gpt-x-2026", "success", 1.0, CALLED),
            ("traces", "gpt-old", "missing", None, ["system: Be brief.", "user: Hello?", "Hello."]),
            (
                "traces",
                "gpt-indexed",
                "missing",
                None,
                ["user: Add 1 and 2.", 'add({"a": 1, "b": 2})', "= 3", "3."],
            ),
        ],
    ),
    ("otlp_genai.pb", "otlp", 0, [("traces", "gpt-x-2026", "success", 1.0, CALLED)]),
    (
        "otlp_openinference.json",
        "otlp",
        0,
        [
            (
                "traces",
                "gpt-oi",
                "missing",
                None,
                ["system: Be brief.", "user: Weather in Rome?", 'weather({"city": "Rome"})'],
            ),
            ("traces", "gpt-oi", "missing", None, []),
        ],
    ),
    (
        "inspect.json",
        "inspect",
        0,
        [
            (
                "sums",
                "openai/gpt-x",
                verdict,
                score,
                ["user: 2+2?", "(Easy.)", "Calling.", 'add({"a": 2, "b": 2})', "= 4", "4"],
            )
            for verdict, score in (("success", 1.0), ("failure", 0.0), ("failure", 0.5))
        ],
    ),
    (
        "langfuse_trace.json",
        "langfuse",
        0,
        [
            (
                "booking",
                "gpt-x",
                "success",
                1.0,
                ["system: Be brief.", "user: Book a table.", 'book({"seats": 2})', "= ok", "Booked."],
            )
        ],
    ),
    (
        "langfuse_observations.jsonl",
        "langfuse",
        0,
        [
            ("faq", "claude-x", "missing", None, ["user: Opening hours?", "Nine to five."]),
            ("traces", "claude-x", "missing", None, []),
        ],
    ),
    (
        "phoenix_spans.jsonl",
        "phoenix",
        0,
        [("traces", "gpt-x", "success", 1.0, ["user: Capital of France?", "Paris."])],
    ),
    ("phoenix_frame.json", "phoenix", 0, [("traces", "gpt-y", "failure", 0.25, ["user: Hi", "Hello."])]),
    (
        "verifiers.jsonl",
        "verifiers",
        1,
        [
            ("gsm8k", "unknown", "success", 1.0, ["system: Think.", "user: 3+4?", "7"]),
            ("gsm8k", "unknown", "failure", 0.0, ["system: Think.", "user: 3+4?", 'add({"a": 3})', "= 3", "8"]),
        ],
    ),
    (
        "openai_samples.jsonl",
        "openai-evals",
        1,
        [
            ("evals", "ideal", "success", 1.0, ["system: Complete.", "user: Once upon a", "time"]),
            ("evals", "ideal", "success", 1.0, ["user: 2+2=", "4"]),
        ],
    ),
    (
        "openai_log.jsonl",
        "openai-evals",
        0,
        [
            ("sums", "gpt-3.5-turbo", "success", 1.0, ["system: Add.", "user: 1+1", "2"]),
            ("sums", "gpt-3.5-turbo", "failure", 0.0, ["user: 1+2", "4"]),
        ],
    ),
    ("openai_items.jsonl", "openai-evals", 0, [("eval_1", "gpt-4o-mini", "success", 1.0, ["user: 1+1", "2"])]),
    (
        "preference.jsonl",
        "preference",
        2,
        [
            ("preference", model, "missing", None, talk)
            for model, talk in (
                ("unknown", ["user: What is 2+2?", "4"]),
                ("unknown", ["user: What is 2+2?", "5"]),
                ("large", ["system: Be brief.", "user: Hello?", "Hi."]),
                ("small", ["system: Be brief.", "user: Hello?", "Good day to you!"]),
                ("unknown", ["user: Colour?", "Blue."]),
                ("unknown", ["user: Colour?", "Loud."]),
                ("unknown", ["user: Time?", "Noon."]),
                ("unknown", ["user: Time?", "Late."]),
                ("unknown", ["user: Price?", "get_price({})"]),
                ("unknown", ["user: Price?", "12"]),
            )
        ],
    ),
    (
        "outcomes.csv",
        "outcomes",
        2,
        [
            ("sums", "small", "success", 1.0, []),
            ("sums", "large", "success", 1.0, []),
            ("sums", "small", "failure", 0.0, []),
            ("sums", "large", "missing", None, []),
        ],
    ),
]


@pytest.mark.parametrize(("name", "file_format", "bad", "expected"), CASES)
def test_files_are_detected_and_read_once(
    pool: Pool, tmp_path: Path, name: str, file_format: str, bad: int, expected: list[Any]
) -> None:
    report = ingest(pool, FILES / name, IngestOptions())
    assert (report.format, report.added, report.bad) == (file_format, len(expected), bad)
    found = [
        (
            experience.task.family,
            experience.trajectory.agent_version.removeprefix("imported:").removesuffix(f"@{file_format}"),
            experience.evaluation.verdict if experience.evaluation else "",
            experience.evaluation.score if experience.evaluation else None,
            said(experience),
        )
        for experience in pool.experiences(tenant="default")
    ]
    assert found == expected
    copy = tmp_path / "copy"
    copy.write_bytes(gzip.compress((FILES / name).read_bytes()))
    assert ingest(pool, copy, IngestOptions(file_format)).added == 0


def test_tools_errors_and_attempts_are_kept(pool: Pool) -> None:
    ingest(pool, FILES / "otlp_openinference.json", IngestOptions())
    called, failed = pool.trajectories(tenant="default")
    assert [tool.name for tool in transcript(called).tools] == ["weather"]
    assert (failed.outcome, failed.error) == ("model_error", "429")
    ingest(pool, FILES / "inspect.json", IngestOptions())
    samples = list(pool.trajectories(tenant="default"))[2:]
    assert [(sample.attempt, sample.error) for sample in samples] == [(0, ""), (1, ""), (0, "boom")]
    assert samples[0].task_id == samples[1].task_id != samples[2].task_id


def archive(method: int, *, is_journal: bool = False) -> bytes:
    """The JSON log as an ``.eval`` file."""
    log = json.loads((FILES / "inspect.json").read_text())
    samples = log.pop("samples")
    members = {("_journal/start.json" if is_journal else "header.json"): log, "summaries.json": []}
    members |= {f"samples/{sample['id']}_epoch_{sample['epoch']}.json": sample for sample in samples}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if method == 93 else method) as target:
        for name, content in members.items():
            packed = json.dumps(content).encode()
            target.writestr(name, zstandard.compress(packed) if method == 93 else packed)
        if method == 93:
            for entry, content in zip(target.infolist(), members.values(), strict=True):
                packed = json.dumps(content).encode()
                entry.compress_type, entry.CRC, entry.file_size = 93, zipfile.crc32(packed), len(packed)  # type: ignore[attr-defined]
    return out.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, 93])
@pytest.mark.parametrize("is_journal", [True, False])
def test_eval_files_are_the_json_log(pool: Pool, tmp_path: Path, method: int, is_journal: bool) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(archive(method, is_journal=is_journal))
    report = ingest(pool, path, IngestOptions())
    assert (report.format, report.added, report.bad) == ("inspect", 3, 0)
    assert ingest(pool, FILES / "inspect.json", IngestOptions()).added == 0


def test_damaged_eval_files_are_refused_or_lose_a_sample(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.eval"
    content = archive(zipfile.ZIP_DEFLATED)
    for cut in (30, len(content) // 2, len(content) - 5):
        path.write_bytes(content[:cut])
        with pytest.raises(IngestError, match="damaged or cut off"):
            ingest(pool, path, IngestOptions())
    monkeypatch.setattr(inspect_log, "LARGEST_SAMPLE", 1500)
    path.write_bytes(content)
    bomb = io.BytesIO(content)
    with zipfile.ZipFile(bomb, "a", zipfile.ZIP_DEFLATED) as target:
        target.writestr("samples/bomb.json", b" " * 2**20)
    path.write_bytes(bomb.getvalue())
    report = ingest(pool, path, IngestOptions())
    assert report.bad == 1
    assert "'samples/bomb.json': it has more than 1500 bytes" in report.quarantined[0].reason


def test_spans_of_a_trace_wait_for_each_other_within_a_bound(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = json.loads((FILES / "otlp_genai.jsonl").read_text().splitlines()[0])
    spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    path = tmp_path / "a.jsonl"
    lines = [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in reversed(spans)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert ingest(pool, path, IngestOptions()).added == 1
    monkeypatch.setattr(span_groups, "OPEN_SPANS", 0)
    assert ingest(pool, path, IngestOptions("otlp", tenant="alone")).added == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"what": 1}', "its keys are what"),
        (b"hello", "neither JSON nor a CSV table"),
        (b'{"messages": [], "traj": []}', "it may be tau-bench or chat"),
        (b"[]", "its keys are none"),
    ],
)
def test_ambiguous_files_are_refused(pool: Pool, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(UnknownNameError, match=message):
        ingest(pool, path, IngestOptions())


@settings(max_examples=150, phases=[Phase.explicit, Phase.generate])
@given(st.binary(max_size=80), st.integers(0, 2000), st.booleans())
def test_any_bytes_are_a_request_or_an_error(noise: bytes, place: int, is_cut: bool) -> None:
    content = (FILES / "otlp_genai.pb").read_bytes()
    changed = content[:place] + noise + (b"" if is_cut else content[place + len(noise) :])
    try:
        request = read_request(changed)
    except ValueError:
        return
    assert request.keys() == {"resourceSpans"}


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1.5, "", "x", [], {}, [None], [{}], {"role": 1}, "[{", '[{"a": 1}]', [[]]]
)


@settings(max_examples=8, phases=[Phase.explicit, Phase.generate], deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", [case[0] for case in CASES if not case[0].endswith((".pb", ".csv"))])
def test_wrong_values_are_quarantined_or_refused(name: str, choices: st.DataObject) -> None:
    """Any value in a file may be of any type: only errors with a message come of it."""
    file_format = next(case[1] for case in CASES if case[0] == name)
    text = (FILES / name).read_text()
    rows = [json.loads(text)] if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    places = [place for row in rows for place in _places(row)]
    for _ in range(choices.draw(st.integers(1, 3))):
        node, key = choices.draw(st.sampled_from(places))
        node[key] = choices.draw(ODD)
    with TemporaryDirectory() as folder, Pool.open(Path(folder) / "pool.db") as pool:
        path = Path(folder) / "a"
        path.write_text("\n".join(map(json.dumps, rows)))
        try:
            report = ingest(pool, path, IngestOptions(file_format))
        except UpturnError:
            return
        sides = 2 if file_format == "preference" else 1
        assert sides * (report.lines - report.bad) == report.added + report.known


def _places(node: Any) -> list[tuple[Any, Any]]:
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in entries for place in [(node, key), *_places(value)]]


def test_every_format_has_a_file() -> None:
    assert {case[1] for case in CASES} == READERS.keys() - {"chat", "tau-bench"}
