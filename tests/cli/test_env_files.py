"""``upturn env export`` and ``upturn env import``."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.errands import ENVIRONMENT
from upturn.cli.env.commands import env_app
from upturn.errors import ConfigError, FileFormatError, UnknownNameError, UpturnError

MAIL = (
    b"From: eva@x.example\nTo: ann@example.org\nSubject: offer\nDate: Mon, 2 Mar 2026 08:00:00 +0000\n\n12 chairs\n"
)


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(env_app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_a_mailbox_is_imported_changed_and_written(tmp_path: Path) -> None:
    (tmp_path / "mine" / "Mail" / "inbox").mkdir(parents=True)
    (tmp_path / "mine" / "Mail" / "inbox" / "offer.eml").write_bytes(MAIL)
    (tmp_path / "mine" / "Mail" / "inbox" / "other.pdf").write_bytes(b"%PDF")
    calls = ["--do", "outlook.search query=chairs", "--do", "outlook.move ids=m1; folder=archive"]
    options = ["--owner", "ann@example.org", "--zone", "Europe/Berlin", "--now", "2026-03-02 10:00", "--leave-out"]
    printed = run("import", str(tmp_path / "mine"), *options, *calls, "--to", str(tmp_path / "out"))
    assert {result["name"]: result["value"] for result in printed["results"]}["mails"] == 1
    assert (printed["owner"], printed["zone"]) == ("ann", "Europe/Berlin")
    assert "offer" in printed["answers"][0]
    assert [path.partition(":")[0] for path in printed["left_out"]] == ["Mail/inbox/other.pdf"]
    [written] = (tmp_path / "out" / "Mail" / "archive").iterdir()
    assert written.name == "2026-03-02 0900 offer (m1).eml"
    assert run("import", str(tmp_path / "out"))["left_out"] == []


def test_lost_characters_are_noted_when_a_file_is_written(tmp_path: Path) -> None:
    pytest.importorskip("icalendar", reason="the extra files is not installed")
    (tmp_path / "mine").mkdir()
    call = "calendar.create title=re\x07view; start=2026-03-03 10:00; end=2026-03-03 11:00"
    options = [
        "--owner",
        "ann@example.org",
        "--now",
        "2026-03-02 10:00",
        "--do",
        call,
        "--to",
        str(tmp_path / "out"),
    ]
    [domain, note] = run("import", str(tmp_path / "mine"), *options)["notes"]
    assert domain.startswith("people of @example.org have ids here, such as ann")
    path, _, text = note.partition(": ")
    assert path.startswith("Calendar/2026-03-03 1000 re_view")
    assert text == "1 character became \ufffd, since such a file cannot hold them"
    words = ["import", str(tmp_path / "mine"), *options[:-1], str(tmp_path / "again")]
    assert note in " ".join(CliRunner().invoke(env_app, words).stdout.split())


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        (["--zone", "UTC"], ConfigError, "--zone without --owner"),
        ([], FileFormatError, "say whose files these are"),
        (["--owner", "ann@example.org", "--do", "outlook.read id=m7"], ConfigError, "was refused as not_found"),
        (["--owner", "ann@example.org", "--do", "hello"], ConfigError, "is not a call"),
    ],
)
def test_invalid_imports_are_errors(
    arguments: list[str], error: type[UpturnError], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=reason):
        run("import", str(tmp_path), *arguments)


def test_only_workspaces_of_files_are_exported(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="errands has no workspace of files; the office has one"):
        run("export", ENVIRONMENT, "--to", str(tmp_path / "x"))


def test_a_task_s_office_is_exported_before_and_after_its_solution(tmp_path: Path) -> None:
    for module in ("openpyxl", "docx", "pptx", "icalendar"):
        pytest.importorskip(module, reason="the extra files is not installed")
    common = ["export", "office", "--family", "mail_move", "--seed", "3", "--to"]
    printed = run(*common, str(tmp_path / "before"))
    run(*common, str(tmp_path / "after"), "--solved")
    before, after = (
        {path.relative_to(tmp_path / name).as_posix() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("before", "after")
    )
    assert {path.partition("/")[0] for path in before} == {"Mail", "Calendar", "Files", "workspace.json"}
    assert before != after
    assert {result["name"]: result["value"] for result in printed["results"]}["written"] == len(before)
