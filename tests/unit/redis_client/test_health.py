"""Accepting or rejecting a server by its INFO."""

import pytest

from shoal.model.errors import Misconfigured
from shoal.redis_client.health import parse_info, persistence_advice, reject_unfit

FIT = {"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "aof_enabled": "1"}


def test_a_new_enough_server_that_evicts_nothing_is_accepted() -> None:
    reject_unfit(FIT, where="h:1")
    reject_unfit({**FIT, "redis_version": "7.2.4", "valkey_version": "9.1.2"}, where="h:1")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_server_that_would_evict_keys_is_rejected_with_the_fix(policy: str) -> None:
    with pytest.raises(Misconfigured, match="CONFIG SET maxmemory-policy noeviction"):
        reject_unfit({**FIT, "maxmemory_policy": policy}, where="h:1")


@pytest.mark.parametrize("version", ["6.2.14", "5.0.7"])
def test_a_server_that_is_too_old_is_rejected(version: str) -> None:
    with pytest.raises(Misconfigured, match=f"Redis {version}; 7.0 or newer"):
        reject_unfit({**FIT, "redis_version": version}, where="h:1")


def test_the_advice_names_what_a_restart_would_lose() -> None:
    volatile = {**FIT, "aof_enabled": "0"}

    assert persistence_advice(FIT, save="") is None
    assert "memory only" in (persistence_advice(volatile, save="") or "")
    assert "snapshots only" in (persistence_advice(volatile, save="3600 1") or "")
    assert "snapshots only" in (persistence_advice(volatile, save=None) or "")  # unknown


def test_info_is_parsed_by_line() -> None:
    assert parse_info(b"# Server\r\nredis_version:7.0.15\r\nos:Linux: 6\r\n\r\n") == {
        "redis_version": "7.0.15",
        "os": "Linux: 6",
    }
