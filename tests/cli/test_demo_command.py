"""``upturn demo``: errors before any work. Whole demos are in ``tests/loop``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from upturn import __version__
from upturn.cli.app import app
from upturn.loop.demo.plan import PLANS, Size, demo_config
from upturn.loop.run.journal import FILE_NAME, Journal


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["demo", *arguments])


def interrupted_run(folder: Path, seed: int = 0, size: Size = "tiny") -> Path:
    """The folder of a demo that was interrupted right after its start."""
    config = demo_config(seed=seed, directory="runs", plan=PLANS[size])
    run_dir = folder / "runs" / "demo-20260101-000000"
    command = f"demo --size {size}"
    Journal.open(run_dir, config_hash=config.config_hash, version=__version__, command=command).close()
    return run_dir


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "huge"), "'huge' is not one of"),
        (("--seed", "-1"), "Invalid value for '--seed'"),
        (("--seed", "one"), "Invalid value for '--seed'"),
        (("--seeds", "1"), "No such option: --seeds"),
        (("now",), "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("resume", "message"),
    [("latest", "no run demo-* with a journal.jsonl"), ("runs/demo-1", "'runs/demo-1' holds no run to resume")],
)
def test_missing_run_cannot_be_resumed(folder: Path, resume: str, message: str) -> None:
    result = run("--size", "tiny", "--resume", resume)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "tiny", "--seed", "8"), "config_hash is"),
        (("--size", "full", "--seed", "7"), "command is 'demo --size tiny' there and 'demo --size full' now"),
        (("--seed", "7"), "command is 'demo --size tiny' there and 'demo --size brief' now"),
    ],
)
def test_run_of_another_seed_or_size_cannot_be_resumed(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    run_dir = interrupted_run(folder, seed=7)
    before = (run_dir / FILE_NAME).read_text()
    for resume in ("latest", str(run_dir)):
        result = run(*arguments, "--resume", resume)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "cannot resume" in result.stderr
        assert message in result.stderr
        assert "Resume it with the same configuration, version and command, or start a new run" in result.stderr
    assert [path.name for path in run_dir.iterdir()] == [FILE_NAME]
    assert (run_dir / FILE_NAME).read_text() == before


def test_run_of_another_version_of_upturn_cannot_be_resumed(folder: Path) -> None:
    run_dir = interrupted_run(folder)
    first, *rest = (run_dir / FILE_NAME).read_text().splitlines()
    older = json.dumps(json.loads(first) | {"version": "0.0.9"})
    (run_dir / FILE_NAME).write_text("\n".join([older, *rest]) + "\n")
    result = run("--size", "tiny", "--resume", "latest")
    assert result.exit_code == 1
    assert f"version is '0.0.9' there and '{__version__}' now" in result.stderr


def test_run_in_use_cannot_be_resumed(folder: Path) -> None:
    run_dir = interrupted_run(folder)
    config = demo_config(seed=0, directory="runs", plan=PLANS["tiny"])
    with Journal.open(run_dir, config_hash=config.config_hash, version=__version__, command="demo --size tiny"):
        result = run("--size", "tiny", "--resume", "latest")
    assert result.exit_code == 1
    assert "is working on the run" in result.stderr


def test_refusal_does_not_import_torch(folder: Path) -> None:
    interrupted_run(folder, seed=7)
    program = (
        "import sys; sys.argv = ['upturn', 'demo', '--size', 'tiny', '--resume', 'latest']\n"
        "from upturn.cli import main\n"
        "try: main()\n"
        "except SystemExit as done: assert done.code == 1\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot resume" in done.stderr
