"""The section ``[access]``: addresses, keys, limits."""

import pytest

from upturn.config import AccessConfig, LimitSettings, TenantConfig, is_loopback, parse_settings
from upturn.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    for keys in ("auto", "required", "off"):
        assert parse_settings(AccessConfig, {"keys": keys}).bind_problem(host, has_keys=False) is None
    assert not AccessConfig().requires_keys(host)
    assert AccessConfig(keys="required").requires_keys(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.7", "192.168.1.2", "gateway.example", "localhost.example", ""]
)
def test_another_address_without_keys_is_an_error_that_names_both(host: str) -> None:
    assert not is_loopback(host)
    problem = AccessConfig().bind_problem(host, has_keys=False)
    assert problem is not None
    assert f"gateway.host = {host!r}" in problem
    assert "upturn keys add" in problem
    off = AccessConfig(keys="off").bind_problem(host, has_keys=True)
    assert off is not None
    assert f"gateway.host = {host!r}" in off
    assert "access.keys = 'off'" in off
    assert AccessConfig().bind_problem(host, has_keys=True) is None
    assert AccessConfig().requires_keys(host)


@pytest.mark.parametrize("origin", ["*", "https://*.example", "shop.example", "https://shop.example/", "null"])
def test_origins_are_exact(origin: str) -> None:
    with pytest.raises(ConfigError, match="allowed_origins"):
        AccessConfig(allowed_origins=(origin,))
    assert AccessConfig().allowed_origins == ()


def test_contradictions_are_named() -> None:
    with pytest.raises(ConfigError, match="tenants name 'a' twice"):
        AccessConfig(tenants=(TenantConfig(name="a"), TenantConfig(name="a", usd_per_day=1.0)))
    with pytest.raises(ConfigError, match=r"max_wait_seconds=3.0 would do nothing with max_waiting=0"):
        AccessConfig(max_waiting=0, max_wait_seconds=3.0)
    with pytest.raises(ConfigError, match="key_limits would do nothing with keys='off'"):
        AccessConfig(keys="off", key_limits=LimitSettings(requests_per_minute=5))
