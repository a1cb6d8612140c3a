"""The records about exits, in a folder and in Redis: what one process writes, all others see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.servers.redis import valkey

from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.ledger import ExitLedger, crawl_key, read_spending
from shoal.fetch.exits.shared_health import SharedHealth, change_record, exit_key
from shoal.model.exits.exit import ChosenExit, ExitWish, parse_exit
from shoal.model.exits.health import ExitRecord, is_out, rested_by_hand
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings
from shoal.stores.contract.exits import StoredExits
from shoal.stores.folder.exits import FolderExitRecords
from shoal.stores.open import open_store


@asynccontextmanager
async def in_folder(folder: Path) -> AsyncIterator[list[StoredExits]]:
    yield [FolderExitRecords(folder / "exits.db") for _ in range(2)]


@asynccontextmanager
async def in_redis(folder: Path) -> AsyncIterator[list[StoredExits]]:
    async with (
        valkey(folder) as server,
        open_store(server.dsn, create=True) as one,
        open_store(server.dsn) as two,
    ):
        yield [one.exits, two.exits]


@pytest.fixture(params=[in_folder, in_redis], ids=["folder", "redis"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[StoredExits]]:
    """The same records, as two processes have them open."""
    async with request.param(tmp_path) as opened:
        yield opened


async def test_a_record_is_replaced_only_by_a_process_that_has_seen_the_latest(
    records: list[StoredExits],
) -> None:
    one, two = records
    assert await one.all() == {}
    assert await one.swap("e/a", None, b"1")
    assert not await two.swap("e/a", None, b"2")
    assert not await two.swap("e/a", b"0", b"2")
    assert await two.all() == {"e/a": b"1"}
    assert await two.swap("e/a", b"1", b"2")
    assert not await one.swap("e/a", b"1", None)
    assert await one.swap("e/a", b"2", None)
    assert await two.all() == {}


async def test_many_records_are_replaced_at_once_except_those_that_others_have_changed(
    records: list[StoredExits],
) -> None:
    one, two = records
    made = {f"e/{number}": (None, b"1") for number in range(250)}
    assert await one.swap_all(made) == set(made)
    assert await two.swap("e/7", b"1", b"other")
    assert await one.swap_all(dict.fromkeys(made, (b"1", b"2"))) == set(made) - {"e/7"}
    assert await one.swap_all({"e/7": (b"other", None), "e/8": (b"2", None), "new": (b"0", b"1")}) == {
        "e/7",
        "e/8",
    }
    found = await two.all()
    assert len(found) == 248
    assert set(found.values()) == {b"2"}


async def test_what_many_count_at_once_adds_up(records: list[StoredExits]) -> None:
    via = ChosenExit(parse_exit("http://10.0.0.1:1 name=a price_gb=1"), kind="isp")

    async def spend(number: int) -> None:
        ledger = ExitLedger("shop", records[number % 2])
        for _ in range(5):
            ledger.count(via, f"h{number}", 100)
            await ledger.sync(force=True)
        while ledger._traffic:  # others were faster
            await ledger.sync(force=True)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(spend(number))
    found = read_spending((await records[0].all())[crawl_key("shop")])
    assert found.exits == {"a": 6 * 5 * 100}


async def test_an_exit_that_one_process_found_dead_is_not_asked_by_another(
    records: list[StoredExits],
) -> None:
    exits = [parse_exit(f"http://10.0.0.{n}:1 name=e{n}") for n in (1, 2)]
    settings = ProxySettings(rotation="request")
    asked: list[list[str]] = [[], []]
    pools = [
        ExitPool(exits, settings, worker=f"w{n}", health=SharedHealth(exits, records[n], cool_off=30.0))
        for n in (0, 1)
    ]

    async def send(number: int) -> Response | Failure | NotSent:
        async def call(via: ChosenExit) -> Response | Failure:
            asked[number].append(via.name)
            if via.name == "e1":
                return Failure(FailureClass.PROXY_ERROR, "exit: gone")
            return Response("http://a.example/", 200, (), b"", b"", 0.0, 0.0)

        return (await pools[number].send(call, host="a.example", wish=ExitWish()))[0]

    for _ in range(12):
        assert isinstance(await send(0), Response)
    await pools[0].health.sync(force=True)
    for _ in range(6):
        assert isinstance(await send(1), Response)
    assert asked[0].count("e1") == 5
    assert asked[1] == ["e2"] * 6
    # By hand, from a third place.
    await change_record(records[1], exit_key("e2"), lambda record: rested_by_hand(record, 4e9, 60.0))
    await pools[0].health.sync(force=True)
    assert isinstance(await send(0), NotSent)
    assert is_out(pools[0].health.get(exit_key("e2")) or ExitRecord(), 4e9)
