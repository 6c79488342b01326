"""The files of a workspace: read within limits, stored as JSON, and written back."""

import os
from pathlib import Path

import pytest

from upturn.environments.programs.workspace import (
    Workspace,
    WorkspaceLimits,
    checked_path,
    encoded_files,
    read_workspace,
    write_workspace,
)
from upturn.errors import WorldError

LIMITS = WorkspaceLimits()


@pytest.mark.parametrize(
    "path", ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\0", "a\nb", "\udc80", "x/" * 20 + "y", 3, None]
)
def test_other_paths_than_plain_relative_ones_are_refused(path: object) -> None:
    with pytest.raises(WorldError, match="a path in a workspace must be relative"):
        checked_path(path)


def test_plain_paths_are_taken_as_they_are() -> None:
    for path in ("a", "src/main.py", "with space/ünïcode", ".hidden", "x/" * 19 + "y", "a\\b", "..."):
        assert checked_path(path) == path


def test_files_are_text_or_bytes_and_no_folders() -> None:
    assert encoded_files({"a": "é", "b/c": b"\0"}) == {"a": "é".encode(), "b/c": b"\0"}
    with pytest.raises(WorldError, match="the file 'a' of a workspace must be str or bytes, got int"):
        encoded_files({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(WorldError, match="'a/b' is a file and a folder of the same workspace"):
        encoded_files({"a/b": "", "a/b/c/d": ""})


def test_a_workspace_survives_json_and_the_file_system(tmp_path: Path) -> None:
    files = {"a/b.txt": "é\n".encode(), "bytes": b"\xff", "empty": b"", "run": b"#!", "zero": b"a\0"}
    workspace = Workspace(files, ("run",))
    stored = workspace.as_json()
    assert stored["files"] == {
        "a/b.txt": {"text": "é\n"},
        "bytes": {"base64": "/w=="},
        "empty": {"text": ""},
        "run": {"text": "#!", "is_executable": True},
        "zero": {"base64": "YQA="},
    }
    assert Workspace.from_json(stored) == workspace
    write_workspace(tmp_path, workspace)
    assert read_workspace(tmp_path, LIMITS) == workspace


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ({}, "the state holds no workspace"),
        ({"files": {"../a": {"text": ""}}, "left_out": {}}, "must be relative"),
        ({"files": {"a": {"base64": "?"}}, "left_out": {}}, "'a' is no base64"),
        ({"files": {"a": "text"}, "left_out": {}}, "'a' needs 'text' or 'base64'"),
    ],
)
def test_a_damaged_state_is_refused_by_name(stored: dict[str, object], problem: str) -> None:
    with pytest.raises(WorldError, match=problem):
        Workspace.from_json(stored)  # type: ignore[arg-type]


def test_links_pipes_and_unusual_names_are_named_and_never_opened(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    (outside / "secret").write_text("4711")
    folder.mkdir()
    (folder / "kept").write_text("x")
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret")
    os.mkfifo(folder / "pipe")
    (folder / "a\nb").write_text("x")
    (folder / os.fsdecode(b"\xff")).write_text("x")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("x")
    deep = folder.joinpath(*"d" * 20)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    workspace = read_workspace(folder, LIMITS)
    assert workspace.files == {"kept": b"x"}
    assert workspace.left_out == {
        "link": "a symbolic link",
        "file": "a symbolic link",
        "pipe": "no regular file",
        "a\nb": "its name has characters that are not stored",
        "\\udcff": "its name has characters that are not stored",
        "/".join("d" * 20): "a folder below 19 others",
    }


def test_the_first_files_come_first_where_limits_are_reached(tmp_path: Path) -> None:
    files = {f"new{number}": b"x" * 10 for number in range(60)} | {"z/first": b"y" * 10}
    write_workspace(tmp_path, Workspace(files))
    few = read_workspace(tmp_path, WorkspaceLimits(files=2), ["z/first"])
    assert list(few.files) == ["new0", "z/first"]
    assert len(few.left_out) == 51 and few.left_out["…"] == "9 more"
    assert few.left_out["new1"].startswith("10 bytes, after 2 files; sha256 ")
    small = read_workspace(tmp_path, WorkspaceLimits(total_bytes=25), ["z/first"])
    assert list(small.files) == ["new0", "z/first"]
    assert small.left_out["new1"].startswith("10 bytes, over 25 in all; sha256 ")


def test_a_sparse_file_of_a_terabyte_is_named_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)
    assert read_workspace(tmp_path, LIMITS).left_out == {"huge": f"{2**40} bytes, over 100000"}


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert read_workspace(tmp_path / "gone", LIMITS) == Workspace()
