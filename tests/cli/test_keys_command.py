"""``upturn keys`` on a real pool file."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from upturn.cli.keys import keys_app
from upturn.errors import UnknownNameError
from upturn.pool import Location, Pool
from upturn.pool.access import KeyStore, key_digest
from upturn.records import ApiKey


def _run(pool: Location, *arguments: str) -> dict[str, Any]:
    """The printed object; errors are raised."""
    result = CliRunner().invoke(keys_app, [*arguments, "--pool", str(pool), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_a_key_is_printed_once_and_never_stored(tmp_path: Path) -> None:
    pool = tmp_path / "pool.db"
    added = _run(pool, "add", "shop", "--usd-per-day", "2.5", "--requests-per-minute", "60", "--who", "ana")
    secret = added["key"]
    listed = _run(pool, "list", "--log")
    assert secret not in json.dumps(listed)
    assert listed["keys"] == [{name: added[name] for name in listed["keys"][0]}]
    assert listed["keys"][0]["roles"] == ["client", "feedback"]
    assert [(act["who"], act["what"], act["subject"]) for act in listed["acts"]] == [
        ("ana", "keys add", added["id"])
    ]
    for path in tmp_path.iterdir():
        assert secret[16:].encode() not in path.read_bytes(), path
    with KeyStore(pool) as store:
        (key,) = store.keys(tenant="default")
    expected = ApiKey(added["id"], key_digest(secret), "default", "shop", ("client", "feedback"), key.created_at)
    assert (key.usd_per_day, key.requests_per_minute) == (2.5, 60)
    assert (key.id, key.digest, key.roles) == (expected.id, expected.digest, expected.roles)


@pytest.mark.parametrize(
    "arguments",
    [
        ["a", "--expires-days", "1e300"],
        ["a", "--usd-per-day", "inf"],
        ["a", "--requests-per-minute", "99999999999"],
        ["a", "--tenant", ""],
        [" "],
    ],
)
def test_a_key_that_could_not_be_shown_or_owned_is_not_stored(tmp_path: Path, arguments: list[str]) -> None:
    pool = tmp_path / "pool.db"
    result = CliRunner().invoke(keys_app, ["add", *arguments, "--pool", str(pool)])
    assert result.exit_code != 0
    assert not pool.exists()


def test_a_budget_without_prices_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pool, config = tmp_path / "pool.db", tmp_path / "upturn.toml"
    assert (
        "has no [prices.NAME]: the budget counts nothing"
        in _run(pool, "add", "a", "--usd-per-month", "9")["warning"]
    )
    assert "warning" not in _run(pool, "add", "b", "--requests-per-minute", "9")
    config.write_text('[pool]\npath = "pool.db"\n', encoding="utf-8")
    assert "warning" in _run(pool, "add", "c", "--usd-per-day", "9")
    config.write_text("[prices.m]\ninput = 1\noutput = 2\n", encoding="utf-8")
    assert "warning" not in _run(pool, "add", "d", "--usd-per-day", "9")


def test_keys_are_revoked_while_a_gateway_writes(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        added = _run(pool.location, "add", "shop", "--role", "operator", "--tenant", "acme", "--expires-days", "1")
        revoked = _run(pool.location, "revoke", added["id"], "--who", "ben", "--why", "leaked")
        assert (revoked["state"], revoked["tenant"], revoked["roles"]) == ("revoked", "acme", ["operator"])
        assert _run(pool.location, "list")["keys"] == [], "another tenant's"
        assert [key["state"] for key in _run(pool.location, "list", "--all-tenants")["keys"]] == ["revoked"]


def test_unknown_roles_and_ids_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown role 'root'; known: client, feedback, operator, admin"):
        _run(tmp_path / "pool.db", "add", "shop", "--role", "root")
    assert not (tmp_path / "pool.db").exists()
    _run(tmp_path / "pool.db", "add", "shop")
    with pytest.raises(UnknownNameError, match="no API key has the id 'x'"):
        _run(tmp_path / "pool.db", "revoke", "x")
