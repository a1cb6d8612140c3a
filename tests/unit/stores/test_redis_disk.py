"""Waiting until a server has its log on disk, also where the server says so too early."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from shoal.stores.redis.disk import Log, sync
from shoal.stores.redis.dsn import Address
from shoal.stores.redis.failures import UNSYNCED, Failed
from shoal.stores.redis.link import Argument, Link


class FakeLink:
    """A server that notes what it is asked, and gives one answer to all of it."""

    address = Address("127.0.0.1", 6379)

    def __init__(self, on_disk: int = 1) -> None:
        self.asked: list[str] = []
        self._on_disk = on_disk

    async def calls(self, commands: Sequence[Sequence[Argument]], *, extra: float) -> list[Any]:
        self.asked += [str(command[0]) for command in commands]
        return [[self._on_disk, 0] for _ in commands]

    def checked(self, answer: Any) -> Any:
        return answer

    async def write(self) -> None:
        self.asked.append("write")


@pytest.fixture(autouse=True)
def short_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.stores.redis.disk.SECOND", 0.0)


@pytest.mark.parametrize(
    ("log", "asked"),
    [
        (Log.NONE, []),
        (Log.EXACT, ["WAITAOF"]),
        # The first answer says that the write is out of the server's hands; a second later a sync of it has begun,
        # and the second answer, about another write, says that none is going on.
        (Log.HASTY, ["WAITAOF", "write", "WAITAOF"]),
    ],
)
async def test_a_server_is_asked_as_often_as_its_answer_needs(log: Log, asked: list[str]) -> None:
    link = FakeLink()
    await sync(cast("Link", link), log, link.write)

    assert link.asked == asked


async def test_what_is_not_on_disk_in_time_is_waited_for_again() -> None:
    link = FakeLink(on_disk=0)
    with pytest.raises(Failed, match=UNSYNCED):
        await sync(cast("Link", link), Log.EXACT, link.write)
