"""Tags of tasks: appended records that select and count."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pool.conftest import Point
from upturn.errors import ConfigError, UnknownNameError
from upturn.pool import (
    BatchCriteria,
    Choice,
    IngestOptions,
    Pool,
    PoolExport,
    Selection,
    change_tags,
    freeze_batch,
    get_batch,
    ingest,
    ledger_problems,
    redraw,
    tag_statistics,
    tags_of,
    tasks_of,
)
from upturn.pool.ingestion.formats import READERS, Conversation, Defaults
from upturn.pool.ingestion.formats.recorded import Recorded, conversation_of

Make = Callable[..., Point]


def fill(pool: Pool, make: Make) -> None:
    for name in ("a", "b", "c"):
        pool.append(*make(name))
    pool.append(*make("a2", task="task-a", verdict="failure", score=0.0)[1:])
    pool.append(*make("other", tenant="acme"))


def selected(pool: Pool, *tags: str, tenant: str = "default") -> list[str]:
    return [row.trajectory_id for row in pool.selected(Selection(tags=tags), tenant=tenant)]


def drawn(pool: Pool, *tags: str, bound: int | None = None) -> list[str]:
    batch = get_batch(pool, BatchCriteria(9, tags=tags), tenant="default", bound=bound)
    return [point.trajectory_id for point in batch.points]


def test_tags_are_set_and_removed_and_select_trajectories(pool: Pool, make_point: Make) -> None:
    fill(pool, make_point)
    changed = change_tags(pool, ["task-a", "trajectory-b"], add=("vip", "vip", "gold"), tenant="default")
    assert [(item.task_id, item.tag) for item in changed] == [
        ("task-a", "vip"),
        ("task-a", "gold"),
        ("task-b", "vip"),
        ("task-b", "gold"),
    ]
    assert change_tags(pool, ["task-a"], add=("vip",), remove=("none",), tenant="default") == []
    change_tags(pool, ["task-b"], add=("late",), remove=("gold",), tenant="default", comment="by mistake")
    assert tags_of(pool, ["task-a", "task-b", "task-c"], tenant="default") == {
        "task-a": ["gold", "vip"],
        "task-b": ["late", "vip"],
    }
    assert selected(pool, "vip") == ["trajectory-a", "trajectory-b", "trajectory-a2"]
    assert selected(pool, "vip", "gold") == ["trajectory-a", "trajectory-a2"]
    assert selected(pool, "late", "gold") == []
    assert selected(pool, "vip", tenant="acme") == []
    assert drawn(pool, "vip", "late") == ["trajectory-b"]
    assert list(ledger_problems(pool.engine)) == []
    counted = [tuple(entry) for entry in tag_statistics(pool, tenant="default")]
    assert counted == [("gold", 1, 2, 1, 0), ("late", 1, 1, 1, 0), ("vip", 2, 3, 2, 0)]
    assert tag_statistics(pool, tenant="acme") == []


def test_a_batch_of_a_tag_is_drawn_again_whatever_is_tagged_since(pool: Pool, make_point: Make) -> None:
    fill(pool, make_point)
    change_tags(pool, ["task-a", "task-b"], add=("vip",), tenant="default")
    batch = get_batch(pool, BatchCriteria(9, tags=("vip",)), tenant="default")
    frozen = freeze_batch(pool, batch)
    change_tags(pool, ["task-c"], add=("vip",), tenant="default")
    change_tags(pool, ["task-a"], remove=("vip",), tenant="default")
    assert drawn(pool, "vip") == ["trajectory-b", "trajectory-c"]
    assert redraw(pool, frozen.id) == batch
    change_tags(pool, ["task-a"], add=("vip",), tenant="default")
    assert drawn(pool, "vip") == ["trajectory-a", "trajectory-b", "trajectory-c", "trajectory-a2"]


def test_names_and_tasks_are_checked(pool: Pool, make_point: Make) -> None:
    fill(pool, make_point)
    for tag in ("", " x", "a\nb", "x" * 65):
        with pytest.raises(ConfigError, match="a tag has 1 to 64 printable characters"):
            change_tags(pool, ["task-a"], add=(tag,), tenant="default")
    with pytest.raises(ConfigError, match="'x' is both added and removed"):
        change_tags(pool, ["task-a"], add=("x",), remove=("x",), tenant="default")
    with pytest.raises(UnknownNameError, match=r"tenant 'default' has no task.*'task-other'"):
        change_tags(pool, ["task-a", "task-other"], add=("x",), tenant="default")
    assert tags_of(pool, ["task-a", "task-other"], tenant="default") == {}
    assert tasks_of(pool, ["trajectory-a2", "task-a"], tenant="default") == ["task-a"]


LINE = '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "ok"}], "tags": %s}\n'


def read(pool: Pool, path: Path, text: str, *, is_anonymised: bool = False) -> tuple[int, int]:
    path.write_text(text)
    report = ingest(pool, path, IngestOptions("chat", is_anonymised=is_anonymised))
    return report.added, report.bad


def test_tags_of_chat_lines_are_imported_once(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        lines = LINE % ("one", '["vip", "vip"]') + LINE % ("two", "null")
        assert read(pool, tmp_path / "a.jsonl", lines) == (2, 0)
        (tagged,) = selected(pool, "vip")
        change_tags(pool, [tagged], remove=("vip",), tenant="default")
        assert read(pool, tmp_path / "b.jsonl", lines + LINE % ("three", '["new"]')) == (1, 0)
        assert selected(pool, "vip") == []
        assert len(selected(pool, "new")) == 1
        bad = "".join(LINE % ("four", tags) for tags in ('"vip"', "[1]", '[""]', '["a\\nb"]'))
        assert read(pool, tmp_path / "c.jsonl", bad) == (0, 4)
        assert read(pool, tmp_path / "d.jsonl", LINE % ("five", '["ann@corp.de"]'), is_anonymised=True) == (1, 0)
        assert len(selected(pool, "<EMAIL>")) == 1


def test_a_tag_is_exported_with_its_task_and_anonymised(tmp_path: Path, make_point: Make) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        fill(pool, make_point)
        change_tags(pool, ["task-a"], add=("of ann@corp.de",), tenant="default")
        change_tags(pool, ["task-b"], add=("b",), tenant="default")
        choice = Choice(Selection(tags=("of ann@corp.de",)))
        lines = list(PoolExport(pool, tenant="default", choice=choice).lines())
    tags = [line for line in lines if '"kind":"Feedback"' in line]
    assert len(tags) == 1
    assert "tag:of <EMAIL>" in tags[0]
    assert "ann@" not in "".join(lines[1:])


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("langfuse", {"id": "t", "tags": ["vip", "a\nb", 3], "input": "Hi", "output": "Hello."}),
        (
            "inspect",
            {
                "eval": {"task": "sums", "model": "m", "tags": ["vip", "a\nb", 3]},
                "samples": [{"id": 1, "epoch": 1, "messages": [{"role": "assistant", "content": "4"}]}],
            },
        ),
    ],
)
def test_other_tools_tags_are_read_and_unusable_ones_kept(tmp_path: Path, name: str, row: object) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(row))
    (line,) = READERS[name](lambda: path.open("rb"), Defaults())
    assert isinstance(line.content, Conversation)
    assert list(line.content.tags) == ["vip"]
    assert line.content.extra["other_tags"] == ["a\nb", 3]


def test_tags_of_spans_may_be_json_text() -> None:
    recorded = Recorded([{"role": "assistant", "content": "Hi"}], tags='["vip", "new"]')
    assert conversation_of(recorded, Defaults(), "traces").tags == ["vip", "new"]
    assert conversation_of(replace(recorded, tags="vip"), Defaults(), "traces").tags == ["vip"]
