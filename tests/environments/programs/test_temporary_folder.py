"""Temporary folders vanish: closed, forgotten, at the end of the process, and after kill -9 by the next process."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from upturn.environments.programs.temporary_folder import TemporaryFolder, empty_folder, remove_abandoned

PROGRAM = """
import sys
from upturn.environments.programs.temporary_folder import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
sys.stdin.readline()
"""


def start(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a temporary folder."""
    pipe = subprocess.PIPE
    environment = {**os.environ, "TMPDIR": str(parent)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True, env=environment)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_removed_by_close_and_with_its_object() -> None:
    first, second = TemporaryFolder(), TemporaryFolder()
    paths = first.path, second.path
    assert all(path.is_dir() for path in paths) and paths[0].parent == paths[1].parent
    first.close()
    first.close()
    del second
    gc.collect()
    assert not any(path.exists() for path in paths)


def test_the_folder_of_a_process_is_removed_at_its_end(tmp_path: Path) -> None:
    process, folder = start(tmp_path)
    assert (folder / "file").is_file()
    process.communicate("end\n")
    assert process.returncode == 0 and list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    killed, left = start(tmp_path)
    living, kept = start(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert (left / "file").is_file()
        third, folder = start(tmp_path)
        assert not left.exists() and not left.parent.exists()
        assert (kept / "file").is_file() and (folder / "file").is_file()
        third.communicate("end\n")
    finally:
        living.communicate("end\n")
    assert list(tmp_path.iterdir()) == []


def test_only_own_folders_with_a_free_lock_are_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "lock").write_text("")
    (tmp_path / "upturn-workspaces-link").symlink_to(tmp_path / "outside")
    (tmp_path / "upturn-workspaces-new").mkdir()  # its process has not locked it yet
    (tmp_path / "upturn-workspaces-old" / "deep").mkdir(parents=True)
    (tmp_path / "upturn-workspaces-old" / "lock").write_text("")
    assert remove_abandoned(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "outside",
        "upturn-workspaces-link",
        "upturn-workspaces-new",
    ]
    assert (tmp_path / "outside" / "lock").exists()


def test_a_folder_is_emptied_whatever_a_program_left(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = tmp_path / "folder"
    (folder / "locked" / "inner").mkdir(parents=True)
    (folder / "locked" / "inner" / "file").write_text("x")
    (folder / "locked" / "inner").chmod(0)
    (folder / "locked").chmod(0)
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    (folder / ".0.removed").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    folder.chmod(0)
    empty_folder(folder)
    assert list(folder.iterdir()) == [] and (outside / "kept").read_text() == "x"


def test_folders_deeper_than_python_recurses_are_removed(tmp_path: Path) -> None:
    back = Path.cwd()
    folder = tmp_path / "deep"
    folder.mkdir()
    try:
        os.chdir(folder)
        for _ in range(sys.getrecursionlimit() + 100):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(back)
    empty_folder(folder)
    assert list(folder.iterdir()) == []


def test_a_forked_process_removes_nothing_of_its_parent() -> None:
    folder = TemporaryFolder()
    child = os.fork()
    if not child:
        folder.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.is_dir()
    folder.close()
    with pytest.raises(FileNotFoundError):
        folder.path.stat()
