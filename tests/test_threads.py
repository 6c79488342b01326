"""How many threads are used by default, and that idle ones sleep."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from upturn.threads import WAIT_POLICY, cpu_quota, default_threads, wait_passively


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


def test_no_cgroup_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("cores", "quota", "processes", "threads"),
    [(2, None, 1, 2), (8, 2.5, 1, 2), (2, 0.5, 1, 1), (2, 16.0, 1, 2), (8, None, 3, 2), (2, None, 4, 1)],
)
def test_default_threads(cores: int, quota: float | None, processes: int, threads: int) -> None:
    assert default_threads(cores, quota, processes=processes) == threads


def test_a_policy_that_the_user_chose_stays() -> None:
    environ = {WAIT_POLICY: "ACTIVE"}
    wait_passively(environ)
    assert environ == {WAIT_POLICY: "ACTIVE"}


@pytest.mark.parametrize(("chosen", "policy"), [({}, "PASSIVE"), ({WAIT_POLICY: "ACTIVE"}, "ACTIVE")])
def test_the_command_sets_the_policy(chosen: dict[str, str], policy: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != WAIT_POLICY} | chosen
    program = "from upturn.cli import main; import sys; sys.argv[1:] = ['doctor']; main()"
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    (line,) = (line for line in done.stdout.splitlines() if "threads" in line)
    assert f"{WAIT_POLICY}={policy}" in line
