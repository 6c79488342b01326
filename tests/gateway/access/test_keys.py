"""Keys, roles and callers."""

import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from upturn.dialects import RequestError
from upturn.errors import StoreError
from upturn.gateway.access.keys import PERMISSIONS, REFRESH_SECONDS, Caller, Gate, KeyRing, Permission, key_in
from upturn.pool import Pool, Scope
from upturn.pool.access import KeyStore, NewKey, make_key
from upturn.records import ApiKey, Role


@dataclass
class FakeStore:
    """Keys in memory."""

    stored: list[ApiKey] = field(default_factory=list)
    changes: int = 0
    reads: int = 0

    def version(self) -> int:
        return self.changes

    def keys(self, *, tenant: Scope) -> list[ApiKey]:
        self.reads += 1
        return self.stored

    def put(self, *keys: ApiKey) -> None:
        self.stored = list(keys)
        self.changes += 1


class FakeTime:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def stored_key(made: NewKey, *roles: Role, tenant: str = "acme") -> ApiKey:
    return ApiKey(made.id, made.digest, tenant, "web", roles or ("client",), 1.0)


def refused(ring: KeyRing, key: str) -> str:
    with pytest.raises(RequestError) as error:
        ring.check(key)
    assert (error.value.status, error.value.code) == (401, "invalid_api_key")
    return str(error.value)


def test_a_key_names_its_tenant_and_permissions() -> None:
    made, store = make_key(), FakeStore()
    store.put(stored_key(made))
    caller = KeyRing(store).check(made.key)
    assert (caller.tenant, caller.id) == ("acme", made.id)
    assert caller.may("call")
    assert not caller.may("feedback")


def test_unknown_ids_and_wrong_secrets_get_the_same_answer() -> None:
    made, other, store = make_key(), make_key(), FakeStore()
    store.put(replace(stored_key(made), revoked_at=5.0))
    ring = KeyRing(store)
    wrong = made.key[:-1] + ("A" if made.key[-1] != "A" else "B")
    texts = {refused(ring, key) for key in (wrong, other.key, "", "x", "sk-1", other.key + "\n", "up-\ud800")}
    assert len(texts) == 1
    assert made.id not in texts.pop(), "not even that the id exists"


def test_revoked_and_expired_keys_are_refused_with_the_reason() -> None:
    revoked, expired, clock, store = make_key(), make_key(), FakeTime(), FakeStore()
    store.put(replace(stored_key(revoked), revoked_at=5.0), replace(stored_key(expired), expires_at=100.5))
    ring = KeyRing(store, clock=clock)
    assert "was revoked" in refused(ring, revoked.key)
    assert ring.check(expired.key).tenant == "acme"
    clock.now = 100.5
    assert "has expired" in refused(ring, expired.key)


def test_a_revoked_key_stops_within_a_second() -> None:
    made, store, timer = make_key(), FakeStore(), FakeTime()
    store.put(stored_key(made))
    ring = KeyRing(store, timer=timer)
    ring.check(made.key)
    store.put(replace(stored_key(made), revoked_at=1.0))
    timer.now += REFRESH_SECONDS
    assert REFRESH_SECONDS < 1.0
    assert "was revoked" in refused(ring, made.key)


def test_the_table_is_read_again_only_after_a_change() -> None:
    made, store, timer = make_key(), FakeStore(), FakeTime()
    store.put(stored_key(made))
    ring = KeyRing(store, timer=timer)
    for _ in range(10):
        ring.check(made.key)
        timer.now += 1.0
    assert store.reads == 1


def test_no_key_is_accepted_on_old_knowledge(tmp_path: Path) -> None:
    path, made, timer = tmp_path / "pool.db", make_key(), FakeTime()
    Pool.open(path).close()
    store = KeyStore(path)
    store.add(stored_key(made), who="ana")
    ring = KeyRing(store, timer=timer)
    ring.check(made.key)
    store.close()
    path.unlink()
    timer.now += 1.0
    with pytest.raises(StoreError):
        ring.check(made.key)


REVOKE = """
import sys
from pathlib import Path
from upturn.pool.access import KeyStore
with KeyStore(Path(sys.argv[1])) as store:
    store.revoke(sys.argv[2], when=1.0, who="ana")
"""


def test_another_process_revokes_a_key_while_this_one_writes(tmp_path: Path) -> None:
    made, timer = make_key(), FakeTime()
    with Pool.open(tmp_path / "pool.db") as pool, KeyStore(pool.location) as store:
        store.add(stored_key(made), who="ana")
        ring = KeyRing(store, timer=timer)
        ring.check(made.key)
        subprocess.run([sys.executable, "-c", REVOKE, str(pool.location), made.id], check=True)
        timer.now += REFRESH_SECONDS
        assert "was revoked" in refused(ring, made.key)


def test_roles_have_exactly_these_permissions() -> None:
    everything: dict[Role, set[Permission]] = {
        "client": {"call"},
        "feedback": {"feedback"},
        "operator": {"call", "feedback", "observe", "operate"},
        "admin": {"call", "feedback", "observe", "operate", "administer"},
    }
    assert {role: set(permissions) for role, permissions in PERMISSIONS.items()} == everything


def test_a_missing_permission_names_the_roles_that_have_it() -> None:
    caller = Caller("acme", stored_key(make_key(), "client", "feedback"))
    caller.require("call")
    caller.require("feedback")
    with pytest.raises(RequestError, match="roles client, feedback; this needs one of: operator, admin") as error:
        caller.require("operate")
    assert error.value.status == 403
    Caller("acme").require("administer")


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, ""),
        ({"authorization": "Bearer up-1"}, "up-1"),
        ({"authorization": "bearer  up-1 "}, "up-1"),
        ({"authorization": "Basic up-1"}, ""),
        ({"authorization": "Bearer"}, ""),
        ({"x-api-key": "up-2", "authorization": "Bearer up-1"}, "up-2"),
    ],
)
def test_keys_are_read_from_both_headers(headers: dict[str, str], key: str) -> None:
    assert key_in(headers) == key


def test_a_gate_is_open_only_while_there_never_was_a_key() -> None:
    store, timer, made = FakeStore(), FakeTime(), make_key()
    gate = Gate(KeyRing(store, timer=timer), tenant="home", is_required=False)
    assert gate.caller({"authorization": "Bearer anything"}) == Caller("home")
    store.put(replace(stored_key(made), revoked_at=1.0))
    timer.now += 1.0
    with pytest.raises(RequestError, match="no API key"):
        gate.caller({})
    with pytest.raises(RequestError, match="was revoked"):
        gate.caller({"x-api-key": made.key})


def test_a_gate_that_requires_keys_is_never_open() -> None:
    gate = Gate(KeyRing(FakeStore()), tenant="home", is_required=True)
    with pytest.raises(RequestError, match="no API key"):
        gate.caller({})


def test_a_gate_without_keys_is_always_open() -> None:
    gate = Gate(None, tenant="home", is_required=False)
    assert gate.caller({"x-api-key": make_key().key}) == Caller("home")


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "127.0.0.1"])
def test_an_open_gate_serves_this_machine(host: str) -> None:
    gate = Gate(None, tenant="home", is_required=False, allowed_origins=["http://localhost:3000"])
    assert gate.caller({"host": host}) == Caller("home")
    assert gate.caller({"host": host, "origin": "http://localhost:3000"}) == Caller("home")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "localhost:8000", "origin": "https://evil.example"}, "origin_not_allowed"),
        ({"host": "localhost:8000", "origin": "null"}, "origin_not_allowed"),
        ({"host": "localhost:8000", "origin": ""}, "origin_not_allowed"),
        ({"host": "evil.example:8000"}, "host_not_allowed"),
        ({"host": "localhost.evil.example"}, "host_not_allowed"),
        ({"host": "[::2]:8000"}, "host_not_allowed"),
        ({"host": ""}, "host_not_allowed"),
    ],
)
def test_an_open_gate_refuses_other_web_pages_and_rebound_names(headers: dict[str, str], code: str) -> None:
    with pytest.raises(RequestError) as error:
        Gate(KeyRing(FakeStore()), tenant="home", is_required=False).caller(headers)
    assert (error.value.status, error.value.code) == (403, code)


def test_only_active_keys_are_valid() -> None:
    store, timer, clock = FakeStore(), FakeTime(), FakeTime()
    ring = KeyRing(store, clock=clock, timer=timer)
    assert not ring.has_valid_key
    key = stored_key(make_key())
    for keys, is_valid in (
        ((replace(key, revoked_at=1.0), replace(key, id="b", expires_at=100.0)), False),
        ((replace(key, revoked_at=1.0), replace(key, id="b", expires_at=100.5)), True),
        ((key,), True),
    ):
        store.put(*keys)
        timer.now += 1.0
        assert ring.has_valid_key == is_valid


def test_secrets_are_in_no_error_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    made, store = make_key(), FakeStore()
    store.put(replace(stored_key(made), revoked_at=1.0))
    ring = KeyRing(store)
    texts = [refused(ring, made.key), refused(ring, made.key[:-1] + "!"), repr(made), repr(stored_key(made))]
    secret = made.key.rpartition("-")[2] if made.key.count("-") == 2 else made.key[16:]
    assert all(secret not in text and made.key[16:40] not in text for text in [*texts, caplog.text])
