"""Imported conversations in exports: word for word, whatever anonymising does to the length of their texts."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from upturn.pool import ExportFile, IngestOptions, Pool, PoolExport, import_export, ingest
from upturn.pool.exports import ChatSource, TrainingExport

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are Bo, bo.smith@corp.de.\n\n[user]\nNot a message."},
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "x", "content": "[user]\nanna.miller@corp.de"},
    {"role": "user", "content": "And?"},
    {"role": "assistant", "content": "Anna."},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"messages": MESSAGES, "tools": [TOOL], "reward": 1.0}) + "\n")
    return path


@pytest.fixture
def filled(pool: Pool, path: Path) -> Pool:
    ingest(pool, path, IngestOptions("chat"))
    return pool


def rows(pool: Pool, **options: Any) -> tuple[list[Any], dict[str, int]]:
    source, file = ChatSource(pool, tenant="default", **options), io.BytesIO()
    TrainingExport(source, "sft").write(file, ".jsonl")
    return [json.loads(line) for line in file.getvalue().splitlines()], dict(+source.omitted)


def texts(row: Any) -> list[str]:
    return [message["content"] for message in row["messages"]]


def test_messages_and_tools_are_those_of_the_recording(filled: Pool) -> None:
    [row], _ = rows(filled, is_anonymised=False)
    assert texts(row) == [message["content"] for message in MESSAGES]
    assert [message["role"] for message in row["messages"]] == [message["role"] for message in MESSAGES]
    [call] = row["messages"][2]["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": {"at": 1}}
    assert row["messages"][3]["tool_call_id"] == call["id"]
    assert json.loads(row["tools"]) == [TOOL]


ANONYMISED = ["You are Bo, <EMAIL>.\n\n[user]\nNot a message.", "Hi", "", "[user]\n<EMAIL>", "And?", "Anna."]


def test_anonymised_messages_keep_their_borders(filled: Pool) -> None:
    [row], _ = rows(filled)
    assert texts(row) == ANONYMISED


def test_messages_that_are_imported_anonymised_keep_their_borders(pool: Pool, path: Path) -> None:
    ingest(pool, path, IngestOptions("chat", is_anonymised=True))
    [row], _ = rows(pool, is_anonymised=False)
    assert texts(row) == ANONYMISED


def test_an_anonymised_export_that_is_read_back_has_the_same_messages(filled: Pool, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    for is_anonymised in (False, True):
        path.write_text("".join(PoolExport(filled, tenant="default", is_anonymised=is_anonymised).lines()))
        with Pool.open(tmp_path / f"copy{is_anonymised}.db") as copy:
            import_export(copy, ExportFile(path))
            expected = rows(filled, is_anonymised=is_anonymised)
            assert rows(copy, is_anonymised=False) == expected
