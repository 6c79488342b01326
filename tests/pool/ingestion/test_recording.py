"""Compressed files, unknown keys and the quarantine."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import zstandard

from upturn.errors import StoreError
from upturn.pool import Pool, drop_quarantined, quarantined_lines
from upturn.pool.ingestion import IngestOptions, ingest, recording

CHAT = IngestOptions("chat")


def line(answer: str, **extra: object) -> bytes:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages, **extra}).encode() + b"\n"


def zstd(content: bytes) -> bytes:
    """Two frames."""
    half = len(content) // 2
    return zstandard.compress(content[:half]) + zstandard.compress(content[half:])


LINES = b"".join(line(f"answer {number}") for number in range(500))


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_compressed_files_are_read(pool: Pool, tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "packed"
    path.write_bytes(compress(LINES))
    read: list[int] = []
    report = ingest(pool, path, CHAT, read.append)
    assert (report.added, report.bad) == (500, 0)
    assert sum(read) == path.stat().st_size


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("is_cut", [True, False])
def test_damaged_file_keeps_its_beginning(
    pool: Pool, tmp_path: Path, compress: Callable[[bytes], bytes], is_cut: bool
) -> None:
    path = tmp_path / "packed"
    noise = b"".join(line(Random(number).randbytes(500).hex()) for number in range(300))
    packed = compress(noise)
    middle = len(packed) * 2 // 3
    path.write_bytes(packed[:middle] + (b"" if is_cut else b"\xff" * (len(packed) - middle)))
    report = ingest(pool, path, CHAT)
    assert report.added > 0
    assert "the rest of the file is not read" in report.quarantined[-1].reason


def test_bomb_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of input becomes a bounded block of output."""
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstandard.compress(b"\0" * 2**27))
    assert path.stat().st_size < 2**14
    monkeypatch.setattr(recording, "_ZSTD_INPUT", 64)
    with recording.open_recording(path) as file:
        assert sum(len(file.read(2**20)) for _ in range(128)) == 2**27


def test_misspelt_key_is_quarantined_and_others_are_kept_and_counted(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    typo, good = line("a", rewrad=1.0), line("b", reward=1.0, rewards={"a": 1}, source="wiki")
    path.write_bytes(typo + good + line("c", source="web") + line("d", Success=True))
    report = ingest(pool, path, CHAT)
    assert [(bad.line, bad.reason) for bad in report.quarantined] == [
        (1, "unknown key \"rewrad\": did you mean 'reward'? Rename it"),
        (4, "unknown key \"Success\": did you mean 'success'? Rename it"),
    ]
    assert report.unknown_keys == {"rewards": 1, "source": 2}
    kept = [trajectory.final_state for trajectory in pool.trajectories(tenant="default")]
    assert kept == [{"extra": {"rewards": {"a": 1}, "source": "wiki"}}, {"extra": {"source": "web"}}]
    repeated = ingest(pool, path, CHAT)
    assert (repeated.is_repeated, repeated.bad, repeated.unknown_keys) == (True, 2, report.unknown_keys)


def test_quarantined_lines_are_listed_repaired_and_dropped(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line("a") + line("b", rewrad=1.0) + b"{broken\xff\0\n")
    ingest(pool, path, CHAT)
    listed = list(quarantined_lines(pool, tenant="default"))
    assert [(entry.path, entry.line, entry.text) for entry in listed] == [
        (str(path), 2, line("b", rewrad=1.0).decode().strip()),
        (str(path), 3, "{broken\\xff\\x00"),
    ]
    assert [entry.line for entry in quarantined_lines(pool, tenant="default", wanted=listed[1].id)] == [3]
    assert not list(quarantined_lines(pool, tenant="other"))
    repaired = tmp_path / "b.jsonl"
    assert listed[0].text is not None
    repaired.write_text(listed[0].text.replace("rewrad", "reward"))
    assert ingest(pool, repaired, CHAT).added == 1
    assert drop_quarantined(pool, tenant="default", wanted=listed[0].id) == 1
    assert [entry.line for entry in quarantined_lines(pool, tenant="default")] == [3]
    with pytest.raises(StoreError, match="named IMPORT:LINE"):
        list(quarantined_lines(pool, tenant="default", wanted="%"))


def test_unknown_keys_of_messages_are_kept_and_counted(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    messages = [
        {"role": "user", "content": "hi", "cache": True},
        {"role": "assistant", "content": "x", "weight": 0, "refusal": None},
    ]
    misspelt = [{"role": "assistant", "contnet": "x"}]
    path.write_text("".join(json.dumps({"messages": entry}) + "\n" for entry in (messages, misspelt)))
    report = ingest(pool, path, CHAT)
    assert report.unknown_keys == {"messages.cache": 1, "messages.weight": 1}
    (kept,) = pool.trajectories(tenant="default")
    assert kept.final_state == {"extra": {"messages": {"0": {"cache": True}, "1": {"weight": 0}}}}
    assert "did you mean 'content'" in report.quarantined[0].reason
