"""Waiting until the AOF of a server is on disk, also where the server replies too early."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from shoal.redis_client.connection import Argument, RedisConnection
from shoal.redis_client.dsn import Address
from shoal.redis_client.durability import Aof, Aofs, classify_aof, sync
from shoal.redis_client.errors import UNSYNCED, CallFailed


class FakeConnection:
    """A connection that records its commands and returns one reply to all of them."""

    address = Address("127.0.0.1", 6379)

    def __init__(self, on_disk: int = 1, on_replicas: int = 0) -> None:
        self.asked: list[str] = []
        self._answer = [on_disk, on_replicas]

    async def call_many(self, commands: Sequence[Sequence[Argument]], *, extra: float) -> list[Any]:
        self.asked += [" ".join(map(str, command[:3])) for command in commands]
        return [self._answer for _ in commands]

    def check(self, answer: Any) -> Any:
        return answer

    async def write(self) -> None:
        self.asked.append("write")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.redis_client.durability.SYNC_INTERVAL_S", 0.0)


# The first reply means that the write was handed to the operating system; a second later a sync of it has
# begun, and the second reply, about another write, means that no sync is running.
TWICE = "{0}; write; {0}"


@pytest.mark.parametrize(
    ("aofs", "asked"),
    [
        (Aofs(Aof.NONE), ""),
        (Aofs(Aof.EXACT), "WAITAOF 1 0"),
        (Aofs(Aof.EARLY), TWICE.format("WAITAOF 1 0")),
        (Aofs(Aof.EXACT, (Aof.EXACT, Aof.EXACT)), "WAITAOF 1 1"),  # no more replicas than requested
        (Aofs(Aof.EXACT, (Aof.EARLY,)), TWICE.format("WAITAOF 1 1")),
        (Aofs(Aof.EXACT, (Aof.NONE,)), "WAITAOF 1 0"),  # waiting for it would never end
        (Aofs(Aof.NONE, (Aof.EXACT,)), "WAITAOF 0 1"),  # only the replica has an AOF
        (Aofs(Aof.NONE, (Aof.NONE,)), ""),
    ],
)
async def test_servers_that_reply_too_early_are_asked_twice(aofs: Aofs, asked: str) -> None:
    link = FakeConnection(on_replicas=2)
    await sync(cast("RedisConnection", link), aofs, link.write, replicas=1)

    assert "; ".join(link.asked) == asked


@pytest.mark.parametrize("answer", [(0, 1), (1, 0)])
async def test_a_write_that_is_not_on_disk_in_time_fails_and_is_retried(answer: tuple[int, int]) -> None:
    link = FakeConnection(*answer)
    with pytest.raises(CallFailed, match=UNSYNCED):
        await sync(cast("RedisConnection", link), Aofs(Aof.EXACT, (Aof.EXACT,)), link.write, replicas=1)


@pytest.mark.parametrize(
    ("version", "aof", "policy", "expected"),
    [
        ("7.0.15", "1", "everysec", Aof.NONE),  # without WAITAOF
        ("7.2.4", "1", "everysec", Aof.EARLY),
        ("7.2.4", "1", None, Aof.EARLY),  # unknown
        ("7.2.4", "1", "always", Aof.EXACT),
        ("7.2.4", "1", "no", Aof.NONE),
        ("8.0.1", "1", "everysec", Aof.EXACT),
        ("8.0.1", "0", "everysec", Aof.NONE),
    ],
)
def test_the_aof_is_classified_by_version_and_settings(
    version: str, aof: str, policy: str | None, expected: Aof
) -> None:
    assert classify_aof({"redis_version": version, "aof_enabled": aof}, policy) is expected
