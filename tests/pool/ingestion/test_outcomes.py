"""Tables of outcomes: headers, cells, and what becomes of a row."""

import io
import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from upturn.errors import IngestError
from upturn.pool import Pool, inspect
from upturn.pool.ingestion import IngestOptions, ingest, quarantined_lines
from upturn.pool.ingestion.formats import READERS, Defaults, Line
from upturn.pool.statistics import statistics
from upturn.records import Usage

FILES = Path(__file__).parents[2] / "data" / "pool" / "formats"
RECORDED = Path(__file__).parents[4] / "shared" / "data"
OUTCOMES = IngestOptions("outcomes")


def written(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(content: bytes) -> list[Line]:
    def opened() -> AbstractContextManager[Any]:
        return nullcontext(io.BufferedReader(io.BytesIO(content)))

    return list(READERS["outcomes"](opened, Defaults()))


def test_cells_become_costs_usage_and_verdicts(pool: Pool) -> None:
    report = ingest(pool, FILES / "outcomes.csv", IngestOptions())
    points = list(pool.experiences(tenant="default"))
    assert [point.evaluation.costs for point in points if point.evaluation] == [
        {"recorded": 0.002},
        {"recorded": 0.03},
        {"recorded": 0.002},
        {},
    ]
    assert [point.trajectory.usage for point in points] == [
        Usage(120, 30, 0.85),
        Usage(120, 64, 1.9),
        Usage(110),
        Usage(),
    ]
    assert points[0].trajectory.final_state == {"extra": {"Run": "a", "time": "2026-01-05T10:00:00+00:00"}}
    assert points[1].trajectory.final_state["extra"] == {"Run": "a", "time": "2026-01-05T10:00:01+00:00"}
    assert dict(report.unknown_keys) == {"Run": 4}
    assert [(line.line, line.reason) for line in report.quarantined] == [
        (6, "cost must be a number from 0, got '-0.5'"),
        (7, "success must be true, false or a number from 0 to 1, got 'perhaps'"),
    ]
    assert len({point.task.id for point in points}) == 2
    assert [gate.name for gate in inspect(points[0]).gates if not gate.is_passed] == ["complete"]


def test_quarantined_rows_are_repaired_alone(pool: Pool, tmp_path: Path) -> None:
    ingest(pool, FILES / "outcomes.csv", IngestOptions())
    first, _ = quarantined_lines(pool, tenant="default")
    assert first.text is not None
    assert json.loads(first.text)["Cost (USD)"] == "-0.5"
    repaired = written(tmp_path, first.text.replace("-0.5", "0.5"), "bad.jsonl")
    report = ingest(pool, repaired, OUTCOMES)
    assert (report.added, report.bad) == (1, 0)


def test_a_wide_table_has_an_outcome_of_each_model(pool: Pool, tmp_path: Path) -> None:
    text = (
        "question\tgpt-x\tlocal\tgpt-x_cost\tlocal_cost\tgpt-x_response\tlevel\n"
        'What is\t1\tFalse\t0.1\t0\t"Two\nlines"\t3\n'
        "Who?\tNaN\t0.5\t0.2\t0\t\t4\n"
        "When?\tmaybe\t1\t0.2\t0\t\t4\n"
    )
    report = ingest(pool, written(tmp_path, text), IngestOptions())
    assert (report.lines, report.added, [bad.line for bad in report.quarantined]) == (3, 4, [5])
    points = [
        (
            point.trajectory.agent_version,
            point.evaluation.score,
            dict(point.evaluation.costs),
            [turn.text for turn in point.trajectory.turns],
        )
        for point in pool.experiences(tenant="default")
        if point.evaluation
    ]
    assert points == [
        ("imported:gpt-x@outcomes", 1.0, {"recorded": 0.1}, ["Two\nlines"]),
        ("imported:local@outcomes", 0.0, {"recorded": 0.0}, []),
        ("imported:gpt-x@outcomes", None, {"recorded": 0.2}, []),
        ("imported:local@outcomes", 0.5, {"recorded": 0.0}, []),
    ]
    assert dict(report.unknown_keys) == {"level": 4}


def test_equal_rows_are_attempts_and_a_file_again_adds_nothing(pool: Pool, tmp_path: Path) -> None:
    rows = ["task,model,score", "a,m,1", "a,m,1", "a,m,0", "b,m,1"]
    assert ingest(pool, written(tmp_path, "\n".join(rows)), IngestOptions()).added == 4
    again = "\r\n".join([row.replace(",", ";") for row in rows])
    assert ingest(pool, written(tmp_path, again, "b.csv"), IngestOptions()).added == 0
    (first,) = [entry for entry in statistics(pool, tenant="default").pass_k if entry.k == 3]
    assert (first.value, first.groups) == (0.0, 1)


def test_another_score_of_a_task_and_model_is_another_outcome(pool: Pool, tmp_path: Path) -> None:
    for number, score in enumerate(("", "1", "1")):
        added = ingest(pool, written(tmp_path, f"task,model,score\na,m,{score}\n", f"{number}.csv"), OUTCOMES).added
        assert added == (0 if number == 2 else 1)
    found = statistics(pool, tenant="default")
    assert (found.successes, found.missing) == (1, 1)


def test_a_changed_score_is_a_conflict_and_changes_nothing(pool: Pool, tmp_path: Path) -> None:
    ingest(pool, written(tmp_path, "task,model,trial,score\na,m,0,1\nb,m,0,1\n"), IngestOptions())
    report = ingest(pool, written(tmp_path, "task,model,trial,score\na,m,0,0\nb,m,0,1\n", "b.csv"), IngestOptions())
    assert (report.added, [bad.line for bad in report.quarantined]) == (0, [2])
    assert "stored with other content" in report.quarantined[0].reason
    assert statistics(pool, tenant="default").successes == 2


def test_an_id_beside_a_task_names_the_family(pool: Pool, tmp_path: Path) -> None:
    text = "task,doc_id,model,acc\nsums,1,m,1\nwords,1,m,0\n"
    ingest(pool, written(tmp_path, text), IngestOptions())
    assert [task.family for task in pool.tasks(tenant="default")] == ["sums", "words"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,m,0.5,1,2,3", "expected 3 cells, got 6"),
        ("a,m,1.5", "score must be true, false or a number from 0 to 1, got '1.5'"),
        (",m,1", "no task: the cell is empty"),
        ("a,,1", "no model: the cell is empty"),
        (b"a\xff,m,1", "the row is not UTF-8; save the file as UTF-8"),
        ('"a,m,1', "not CSV: unexpected end of data"),
        ("x" * 300 + ",m,1", "task must be 1 to 200 printable characters or null"),
    ],
)
def test_unusable_rows_are_reported_with_their_line(row: str | bytes, reason: str) -> None:
    raw = row if isinstance(row, bytes) else row.encode()
    good, bad = read(b"task,model,score\ngood,m,1\n" + raw)
    assert (good.number, bad.number) == (2, 3)
    assert str(bad.content).startswith(reason)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("task,model,score,reward", "the columns 'score' and 'reward' both mean the score; rename one"),
        ("task,model,score,score", "the column 'score' appears twice"),
        ("task,model,score,latancy", "unknown column 'latancy': did you mean 'latency'"),
        ("who,model,score", "no column for the task"),
        ("task,model,cost", "needs columns for the task, the model and the score"),
    ],
)
def test_headers_that_cannot_be_read_are_refused(header: str, message: str) -> None:
    row = ",".join("x" * header.count(",") + "1")
    with pytest.raises(IngestError, match=message):
        read(f"{header}\n{row}\n".encode())


def test_one_model_is_named_by_the_option(pool: Pool, tmp_path: Path) -> None:
    ingest(pool, written(tmp_path, "prompt|score\nhow|1\n"), OUTCOMES._replace(agent="gpt-x"))
    (trajectory,) = pool.trajectories(tenant="default")
    assert trajectory.agent_version == "imported:gpt-x@outcomes"


def test_the_published_figures_of_gsm8k(pool: Pool) -> None:
    path = RECORDED / "routellm_gsm8k_responses.csv"
    if not path.exists():
        pytest.skip(f"the published recording is not at {path}")
    assert ingest(pool, path, IngestOptions()).bad == 0
    found = statistics(pool, tenant="default")
    rates = {agent.agent_version: round(agent.successes / agent.trajectories, 4) for agent in found.agents}
    assert rates == {
        "imported:gpt-4-1106-preview@outcomes": 0.8567,
        "imported:mistralai/Mixtral-8x7B-Instruct-v0.1@outcomes": 0.6384,
    }
    assert (found.tasks, found.trajectories) == (1319, 2638)
