"""``upturn doctor``: each check has a value and advice."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.postgres_server import PostgresServer
from upturn.cli import doctor as doctor_module
from upturn.cli.app import app
from upturn.cli.doctor import (
    MODEL_FILES,
    Check,
    check_cores,
    check_disk,
    check_memory,
    check_model,
    check_postgres,
    check_python,
    check_sqlite,
    check_threads,
    check_torch,
    find_postgres,
)
from upturn.pool import PoolUrl, location_of


@pytest.mark.parametrize(
    ("version", "is_ok"), [((3, 10), False), ((3, 11), True), ((3, 12), True), ((3, 13), True), ((3, 14), False)]
)
def test_tested_pythons_are_ok(version: tuple[int, int], is_ok: bool) -> None:
    assert check_python(version).is_ok is is_ok


def test_missing_torch_is_named() -> None:
    assert check_torch("").value == "missing"
    assert check_torch("2.13.0").is_ok


def test_model_files_must_exist_and_match_the_card(tmp_path: Path) -> None:
    assert (
        "config.json: No such file or directory, model.safetensors: No such" in check_model("nano", tmp_path).value
    )
    for name in MODEL_FILES:
        (tmp_path / name).write_text("x")
    assert "model.safetensors: cannot be compared, card.json is missing" in check_model("nano", tmp_path).value
    digest = sha256(b"x").hexdigest()
    card = {"weights_sha256": digest, "tokenizer_sha256": digest}
    (tmp_path / "card.json").write_text(json.dumps(card))
    assert check_model("nano", tmp_path) == Check(
        "model nano", str(tmp_path), True, check_model("nano", tmp_path).advice
    )
    (tmp_path / "config.json").write_text("")
    (tmp_path / "tokenizer.json").write_text("y")
    check = check_model("nano", tmp_path)
    assert not check.is_ok
    assert check.value == f"config.json: empty, tokenizer.json: damaged in {tmp_path}"
    assert "upturn model build-nano nano" in check.advice


def test_disk_and_memory_have_bars() -> None:
    assert check_disk(2.0).is_ok
    assert not check_disk(1.9).is_ok
    assert check_memory(3.0).is_ok
    assert not check_memory(2.9).is_ok


def test_one_core_is_ok_with_a_remark() -> None:
    assert check_cores(1).is_ok
    assert check_cores(1).value != "1"
    assert check_cores(2).value == "2"


@pytest.mark.parametrize(("setting", "is_ok"), [("", True), ("1", True), ("2", True), ("3", False), ("x", False)])
def test_threads_fit_the_cores(setting: str, is_ok: bool) -> None:
    assert check_threads({"OMP_NUM_THREADS": setting}, 2, None).is_ok is is_ok


@pytest.mark.parametrize(
    ("environ", "cores", "quota", "value"),
    [
        ({}, 2, None, "2 (usable cores 2); idle threads spin"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, 8, 2.5, "2 (usable cores 8, CPU quota 2.5); OMP_WAIT_POLICY=PASSIVE"),
        ({"OMP_NUM_THREADS": "1"}, 2, None, "2 (usable cores 2, OMP_NUM_THREADS=1); idle threads spin"),
        (
            {"OMP_NUM_THREADS": "9", "KMP_BLOCKTIME": "0"},
            2,
            1.0,
            "1 (usable cores 2, CPU quota 1, OMP_NUM_THREADS=9); KMP_BLOCKTIME=0",
        ),
    ],
)
def test_threads_reasons_and_wait_policy_are_always_shown(
    environ: dict[str, str], cores: int, quota: float | None, value: str
) -> None:
    assert check_threads(environ, cores, quota).value == value


def with_checks(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr(doctor_module, "all_checks", lambda: list(checks))


def test_all_checks_ok_exits_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    with_checks(monkeypatch, Check("python", "3.12", True, "install it"), Check("cores", "2", True, ""))
    result = CliRunner().invoke(app, ["doctor"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "ok python      3.12\nok cores       2\n"


def test_a_failed_check_exits_with_1_and_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    with_checks(monkeypatch, Check("torch", "missing", False, "run make demo"), Check("cores", "2", True, ""))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[:2] == ["NO torch       missing", "               → run make demo"]
    assert result.stderr == "1 of 2 checks failed\n"

    as_json = CliRunner().invoke(app, ["doctor", "--json"])
    assert as_json.exit_code == 1
    read = json.loads(as_json.stdout)
    assert [result["holds"] for result in read["results"]] == [False, True]
    assert read["advice"] == {"torch": "run make demo"}


def test_this_machine_can_be_checked() -> None:
    names = [check.name for check in doctor_module.all_checks()]
    assert names == ["python", "torch", "model nano", "disk", "memory", "cores", "device", "threads", "sqlite"]


@pytest.mark.parametrize(
    ("version", "is_risky"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
    ],
)
def test_builds_of_sqlite_with_the_wal_reset_bug_are_named(version: tuple[int, ...], is_risky: bool) -> None:
    check = check_sqlite(version)
    assert check.is_ok
    assert ("has the WAL-reset bug" in check.value) == is_risky
    assert check.value.startswith(".".join(map(str, version)))


def test_server_must_be_new_enough_and_flush() -> None:
    location = location_of("postgresql://ann:secret@db/evidence")
    assert isinstance(location, PoolUrl)
    fine = {"server_version": "15.18 (Debian)", "fsync": "on", "full_page_writes": "on"}
    assert check_postgres(location, fine).value == "15.18 (Debian) at postgresql://ann@db/evidence"
    assert check_postgres(location, fine).is_ok
    assert "14 or later" in check_postgres(location, fine | {"server_version": "12.1"}).advice
    unsafe = check_postgres(location, fine | {"fsync": "off"})
    assert not unsafe.is_ok
    assert unsafe.value.endswith("fsync off")


def test_configured_server_is_asked(tmp_path: Path, postgres_server: PostgresServer) -> None:
    place = postgres_server.clean_pool()
    config = tmp_path / "upturn.toml"
    assert find_postgres(tmp_path) is None
    config.write_text('[pool]\npath = "upturn.db"\n')
    assert find_postgres(tmp_path) is None
    config.write_text(
        f'[pool]\npath = "{place.url.render_as_string(hide_password=False)}"\n'.replace("+psycopg", "")
    )
    check = find_postgres(tmp_path)
    assert check is not None
    assert check.is_ok, check
    config.write_text(f'[pool]\npath = "postgresql://ann:secret@/nowhere?host={tmp_path}"\n')
    check = find_postgres(tmp_path)
    assert check is not None
    assert not check.is_ok
    assert "secret" not in check.value
