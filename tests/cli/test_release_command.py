"""``upturn release`` on a real pool file."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.deployment.episodes_for_test import Traffic
from upturn.cli.release import release_app
from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.canary import Canary
from upturn.deployment.validation import Pair, validate
from upturn.errors import ReleaseError, StoreError, UnknownNameError
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import admin_acts
from upturn.records import AgentVersion, Release, to_json

AUDIT = ("--who", "ana", "--why", "checked by hand")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "upturn.db"
    with Pool.open(path) as opened:
        for version in ("1", "2", "3"):
            opened.append(AgentVersion("clerk", version, "callable"))
    return path


def _run(pool: Path, *arguments: str) -> dict[str, Any]:
    """The printed object; errors are raised."""
    result = CliRunner().invoke(release_app, [*arguments, "--pool", str(pool), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def _start(pool: Path) -> str:
    return str(_run(pool, "start", "clerk@1", "clerk@2", "--skip-validation", *AUDIT)["release"]["id"])


def _stored(pool: Path) -> list[Release]:
    with Pool.open(pool, read_only=True) as opened:
        return opened.states(Release)


def test_an_override_starts_a_release_and_is_stored(pool: Path) -> None:
    started = _run(pool, "start", "clerk@1", "clerk@2", "--skip-validation", *AUDIT)
    assert started["command"] == "release start"
    assert started["is_validation_skipped"] is True
    assert started["operators"] == "validation skipped by ana: checked by hand"
    assert [(release.candidate, release.state) for release in _stored(pool)] == [("clerk@2", "canary")]


def test_a_validation_file_starts_a_release(pool: Path, tmp_path: Path) -> None:
    pairs = [Pair(str(index), "mail", 1, 0.0, float(index < 30)) for index in range(40)]
    written = tmp_path / "validation.json"
    written.write_text(to_json(validate(pairs, ValidationSettings(resamples=200), seed=0)), encoding="utf-8")
    started = _run(pool, "start", "clerk@1", "clerk@2", "--validation", str(written))
    assert started["is_validation_skipped"] is False
    assert started["validation"].startswith("pass")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "exactly one"),
        (("--skip-validation",), "who did it and why"),
        (("--validation", "nowhere.json"), "no validation at"),
        (("--validation", "nowhere.json", "--who", "ana"), "belong to --skip-validation"),
        (("--validation", "nowhere.json", "--skip-validation"), "exactly one"),
    ],
)
def test_a_release_requires_exactly_one_ground(pool: Path, arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ReleaseError, match=complaint):
        _run(pool, "start", "clerk@1", "clerk@2", *arguments)
    assert _stored(pool) == []


@pytest.mark.parametrize("content", [b"\xff\x00", b"{}", b'{"kind": "Task", "version": 1, "record": {}}'])
def test_a_file_that_holds_no_validation_is_named(pool: Path, tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(content)
    with pytest.raises(ReleaseError, match=r"other\.json' holds no validation: "):
        _run(pool, "start", "clerk@1", "clerk@2", "--validation", str(other))
    assert _stored(pool) == []


def test_an_agent_has_one_open_release(pool: Path) -> None:
    _start(pool)
    with pytest.raises(ReleaseError, match="already has release"):
        _run(pool, "start", "clerk@1", "clerk@3", "--skip-validation", *AUDIT)


def test_a_candidate_that_was_rolled_back_gets_a_new_release(pool: Path) -> None:
    first = _start(pool)
    _run(pool, "rollback", first, *AUDIT)
    assert _start(pool) != first
    assert [release.state for release in _stored(pool)] == ["rolled_back", "canary"]


def test_operators_decide_and_decisions_are_final(pool: Path) -> None:
    release = _start(pool)
    assert _run(pool, "hold", release, *AUDIT)["release"]["state"] == "held"
    assert _run(pool, "resume", release, *AUDIT)["release"]["state"] == "canary"
    promoted = _run(pool, "promote", release, *AUDIT)
    assert (promoted["release"]["state"], promoted["release"]["share"]) == ("promoted", 1.0)
    with pytest.raises(ReleaseError, match="final"):
        _run(pool, "rollback", release, *AUDIT)
    with Pool.open(pool, read_only=True) as opened:
        assert len(opened.states(Release, release)) == 4, "every state is stored"
        acts = [(act.who, act.what) for act in admin_acts(opened.engine, tenant=ALL_TENANTS)]
    assert acts == [("ana", f"releases {what}") for what in ("start", "hold", "resume", "promote")]


def test_list_and_status_show_the_evidence(pool: Path) -> None:
    release = _start(pool)
    with Pool.open(pool) as opened:
        traffic = Traffic(0.1)
        block = [*traffic.block("++++-?", "++-" * 15), *traffic.arm("control", "?")]
        stepped = Canary(CanarySettings()).step(opened.states(Release)[0], [*block, block[0]])
        opened.append(stepped)
    assert [line["id"] for line in _run(pool, "list")["releases"]] == [release]
    status = _run(pool, "status", release)
    figures = {result["name"]: result for result in status["results"]}
    assert figures["candidate_success"]["value"] == 0.8
    assert figures["control_success"]["n"] == 45
    assert figures["candidate_missing"]["value"] == figures["control_missing"]["value"] == 1.0
    assert figures["repeated_outcomes"]["value"] == 1.0
    assert {"log_e_better", "log_e_worse", "log_e_unsafe", "log_e_safe", "log_e_losing"} < figures.keys()
    assert status["release"]["attempt"] == 1
    assert status["last_evidence"].startswith("not decided after 6 candidate tasks")


def test_a_release_after_a_rolled_back_one_is_the_second_attempt(pool: Path) -> None:
    first = _start(pool)
    _run(pool, "rollback", first, *AUDIT)
    second = _run(pool, "start", "clerk@1", "clerk@2", "--skip-validation", *AUDIT)
    assert (second["release"]["id"] != first, second["release"]["attempt"]) == (True, 2)
    _run(pool, "promote", second["release"]["id"], *AUDIT)
    third = _run(pool, "start", "clerk@2", "clerk@3", "--skip-validation", *AUDIT)
    assert third["release"]["attempt"] == 1


def test_unknown_names_list_the_known_ones(pool: Path) -> None:
    release = _start(pool)
    with pytest.raises(UnknownNameError, match=release):
        _run(pool, "status", "release-x")
    _run(pool, "rollback", release, *AUDIT)
    with pytest.raises(UnknownNameError, match="clerk@3"):
        _run(pool, "start", "clerk@1", "clerk@9", "--skip-validation", *AUDIT)


@pytest.mark.parametrize("arguments", [("list",), ("promote", "r", *AUDIT)])
def test_a_mistyped_pool_is_not_created(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(StoreError, match="no pool at"):
        _run(tmp_path / "typo.db", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_settings_of_the_canary_come_from_the_configuration(pool: Path, tmp_path: Path) -> None:
    config = tmp_path / "upturn.toml"
    config.write_text(
        'agents = [{ name = "nano", kind = "local_model", model = "nano" }]\n[canary]\nstages = [0.25, 1.0]\n'
    )
    started = _run(pool, "start", "clerk@1", "clerk@2", "--skip-validation", *AUDIT, "--config", str(config))
    assert started["release"]["share"] == 0.25
