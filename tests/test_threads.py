"""The default number of threads, and the wait policy of idle threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from upturn.threads import WAIT_POLICY, WAIT_SETTINGS, cpu_quota, default_threads, wait_passively


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None), ("50000 0\n", None)]
)
def test_quota_of_cgroup_v2(tmp_path: Path, text: str, quota: float | None) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(("text", "quota"), [("400000\n", 4.0), ("-1\n", None)])
def test_quota_of_cgroup_v1(tmp_path: Path, text: str, quota: float | None) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(text)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(tmp_path) == quota


def test_quota_without_a_cgroup_is_none(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("cores", "quota", "processes", "threads"),
    [(2, None, 1, 2), (8, 2.5, 1, 2), (2, 0.5, 1, 1), (2, 16.0, 1, 2), (8, None, 3, 2), (2, None, 4, 1)],
)
def test_default_threads(cores: int, quota: float | None, processes: int, threads: int) -> None:
    assert default_threads(cores, quota, processes=processes) == threads


def test_idle_threads_wait_passively_by_default() -> None:
    environ: dict[str, str] = {}
    wait_passively(environ)
    assert environ == {WAIT_POLICY: "PASSIVE"}


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_wait_policy_set_by_the_user_stays(name: str) -> None:
    environ = {name: "1"}
    wait_passively(environ)
    assert environ == {name: "1"}


def _run(program: str, variables: dict[str, str]) -> str:
    environ = {name: value for name, value in os.environ.items() if name not in WAIT_SETTINGS} | variables
    return subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.parametrize(
    ("variables", "policy"),
    [
        ({}, "OMP_WAIT_POLICY=PASSIVE"),
        pytest.param({"GOMP_SPINCOUNT": "100"}, "; GOMP_SPINCOUNT=100", marks=pytest.mark.slow),
    ],
)
def test_doctor_shows_the_wait_policy_of_the_command(variables: dict[str, str], policy: str) -> None:
    output = _run("from upturn.cli import main; import sys; sys.argv[1:] = ['doctor']; main()", variables)
    (line,) = (line for line in output.splitlines() if "threads" in line)
    assert policy in line


def test_the_command_line_sets_the_policy_before_torch_is_imported() -> None:
    """The policy is set at the first import of torch, which is the last line at the latest."""
    program = """
import os, sys
from importlib.abc import MetaPathFinder
class Report(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("importing torch with", os.environ.get("OMP_WAIT_POLICY"))
            raise ImportError("far enough")
sys.meta_path.insert(0, Report())
from upturn.cli import main
sys.argv[1:] = ["doctor", "--json"]
try:
    main()
except SystemExit:
    import torch
"""
    reports = [line for line in _run(program, {}).splitlines() if line.startswith("importing torch")]
    assert reports == ["importing torch with PASSIVE"]
