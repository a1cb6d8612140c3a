import asyncio
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator

import asyncpg
import msgspec
import pytest
from tests.servers.postgres import PASSWORD, Postgres, ask, postgres
from tests.servers.process import refusing_port

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.sinks.contract import LastFlush
from shoal.sinks.names import canonical_name
from shoal.sinks.postgres import session
from shoal.sinks.postgres.rows import MAX_ITEM_BYTES, ItemRow, UnfitItem, row_key, row_of
from shoal.sinks.postgres.sink import PostgresSink
from shoal.sinks.recount import recount


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def dsn(server: Postgres, request: pytest.FixtureRequest) -> str:
    table = re.sub(r"\W", "_", request.node.name)[-50:]
    return f"{server.dsn}?table={table}"


def item(number: int, **fields: object) -> Item:
    return Item(f"key-{number}", json.dumps({"n": number, **fields}).encode())


def opened(dsn: str, *, retry_s: float = 5.0) -> PostgresSink:
    sink = PostgresSink(dsn, retry_s=retry_s)
    sink.restore(None)
    sink.flush()
    return sink


def asked(dsn: str, query: str, *arguments: object) -> list[asyncpg.Record]:
    return ask(dsn.partition("?")[0], query, *arguments)


def table_of(dsn: str) -> str:
    return dsn.partition("?table=")[2]


def numbers(dsn: str) -> list[int]:
    return [row[0] for row in asked(dsn, f"SELECT (item->>'n')::int FROM {table_of(dsn)} ORDER BY _id")]


def rejected(dsn: str) -> dict[str, str]:
    rows = asked(dsn, "SELECT _key, reason FROM _shoal_rejected WHERE output = $1", table_of(dsn))
    return {row["_key"]: row["reason"] for row in rows}


def test_an_item_with_the_key_of_an_earlier_one_replaces_it(dsn: str) -> None:
    sink = opened(dsn)
    sink.write([item(1, v="old"), item(2), item(1, v="newer")])
    sink.flush()
    sink.write([item(1, v="newest")])
    sink.flush()
    sink.close()

    rows = asked(dsn, f"SELECT _key, item->>'v' AS v FROM {table_of(dsn)} ORDER BY _id")
    assert [tuple(row) for row in rows] == [("key-1", "newest"), ("key-2", None)]


def test_a_row_that_cannot_be_stored_does_not_block_the_others(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {
        7: Item("key-7", b'{"n": 7, "deep": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
        8: Item("key-8", b'{"n": 8, "text": "\xff"}'),
        9: Item("key-9", b'{"n": 9, "number": 1e400000}'),
    }
    sink = opened(dsn)
    with caplog.at_level(logging.WARNING):
        sink.write([bad.get(number) or item(number) for number in range(12)])
        sink.flush()
    sink.close()

    assert numbers(dsn) == [0, 1, 2, 3, 4, 5, 6, 10, 11]
    assert {key: re.findall("depth|decode|overflow", reason) for key, reason in rejected(dsn).items()} == {
        "key-7": ["depth"],
        "key-8": ["decode"],
        "key-9": ["overflow"],
    }
    assert [record.message for record in caplog.records] == ["item.rejected"] * 3


def test_rejections_that_were_not_committed_are_undone(dsn: str) -> None:
    sink = opened(dsn)
    committed = sink.flush()
    sink.write([Item("key-1", b"\xff")])
    sink.flush()
    sink.close()

    again = PostgresSink(dsn)
    again.restore(committed)
    again.close()

    assert rejected(dsn) == {}


def test_a_row_that_violates_a_constraint_of_the_user_is_rejected(dsn: str) -> None:
    sink = opened(dsn)
    asked(dsn, f"ALTER TABLE {table_of(dsn)} ADD CONSTRAINT small CHECK ((item->>'n')::int < 2)")
    sink.write([item(number) for number in range(4)])
    sink.flush()
    sink.close()

    assert numbers(dsn) == [0, 1]
    assert list(rejected(dsn)) == ["key-2", "key-3"]


def test_keys_too_long_for_an_index_stay_different(dsn: str) -> None:
    long = "k" * 10_000
    sink = opened(dsn)
    sink.write([Item(long + "a", b'{"n": 1}'), Item(long + "b", b'{"n": 2}'), Item("nul\0", b'{"n": 3}')])
    sink.flush()
    sink.close()

    assert numbers(dsn) == [1, 2, 3]


def test_an_item_too_large_for_jsonb_is_rejected_before_it_is_sent() -> None:
    assert isinstance(row_of(Item("k", bytes(MAX_ITEM_BYTES + 1))), UnfitItem)
    assert row_of(Item("k", b"12345"), max_bytes=5) == ItemRow("k", "12345")
    assert isinstance(row_of(Item("k", b"123456"), max_bytes=5), UnfitItem)


def test_nul_is_escaped_everywhere() -> None:
    row = row_of(Item("k", rb'{"a\u0000": ["\u0000", {"b": "c\u0000d"}], "e": "\\u0000"}'))

    assert isinstance(row, ItemRow)
    assert json.loads(row.json) == {"a\\0": ["\\0", {"b": "c\\0d"}], "e": "\\u0000"}


def test_short_keys_are_unchanged() -> None:
    assert row_key("über/1") == "über/1"
    assert row_key("a\0") != row_key("a\\0")


def test_the_sink_survives_a_crash_and_restart_of_the_server(server: Postgres, dsn: str) -> None:
    sink = opened(dsn, retry_s=60.0)
    sink.write([item(1)])
    sink.flush()
    server.stop("immediate")
    back = threading.Timer(0.3, server.start)
    back.start()
    sink.write([item(2)])
    sink.flush()
    back.join()
    sink.close()

    assert numbers(dsn) == [1, 2]


def test_a_flush_that_fails_can_be_repeated_with_more(server: Postgres, dsn: str) -> None:
    sink = opened(dsn, retry_s=0.0)
    server.stop("immediate")
    sink.write([item(1)])
    with pytest.raises(Unavailable):
        sink.flush()
    server.start()
    sink.write([item(2)])
    sink.flush()
    sink.close()

    assert numbers(dsn) == [1, 2]


def test_a_flush_whose_answer_was_lost_is_not_repeated(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(dsn)
    honest, calls = sink._put, []

    async def lose_the_first_answer(*arguments: object) -> object:
        answer = await honest(*arguments)  # type: ignore[arg-type]
        calls.append(answer)
        if len(calls) == 1:
            raise ConnectionResetError("gone")
        return answer

    monkeypatch.setattr(sink, "_put", lose_the_first_answer)
    sink.write([item(1)])
    sink.flush()
    monkeypatch.undo()
    sink.write([item(2)])
    sink.flush()
    sink.close()

    assert calls[0] == calls[1]
    assert numbers(dsn) == [1, 2]


def test_two_writers_of_one_table_cannot_both_continue(dsn: str) -> None:
    first = opened(dsn)
    committed = first.flush()
    second = PostgresSink(dsn)
    second.restore(committed)
    second.write([item(2)])
    second.flush()
    second.close()
    first.write([item(1)])

    with pytest.raises(Misconfigured, match="another crawl is writing it"):
        first.flush()
    first.close()
    assert numbers(dsn) == [2]


@pytest.mark.parametrize(
    ("isolation", "then"),
    [("read committed", "key-1"), ("repeatable read", "key-2")],
    ids=["deadlock", "serialization failure"],
)
def test_a_transaction_that_the_server_aborts_is_repeated(dsn: str, isolation: str, then: str) -> None:
    sink = opened(f"{dsn}&default_transaction_isolation={isolation.replace(' ', '%20')}", retry_s=60.0)
    sink.write([item(1), item(2)])
    sink.flush()

    async def stand_in_the_way() -> None:
        """Change a row that the sink is about to change, then perhaps one that it has already changed."""
        connection = await asyncpg.connect(dsn.partition("?")[0])
        try:
            async with connection.transaction():
                change = f"UPDATE {table_of(dsn)} SET item = item WHERE _key = $1"
                await connection.execute(change, "key-2")
                flushing = asyncio.create_task(asyncio.to_thread(sink.flush))
                blocked = (
                    "SELECT 1 FROM pg_stat_activity WHERE application_name='shoal' AND wait_event_type='Lock'"
                )
                while not await connection.fetch(blocked):
                    await asyncio.sleep(0.01)
                    await connection.execute("SELECT pg_stat_clear_snapshot()")
                await connection.execute(change, then)
        except asyncpg.DeadlockDetectedError:
            pass  # the server aborts one of the two
        finally:
            await connection.close()
        await flushing

    sink.write([item(1, v="new"), item(2, v="new")])
    asyncio.run(stand_in_the_way())
    sink.close()

    rows = asked(dsn, f"SELECT item->>'v' FROM {table_of(dsn)}")
    assert [row[0] for row in rows] == ["new", "new"]


def test_a_position_is_stored_with_the_items_and_nothing_else(dsn: str) -> None:
    sink = PostgresSink(dsn)
    assert sink.last_flush() is None
    sink.restore(None)
    sink.flush(b"start")
    sink.write([item(1)])
    sink.flush(b"one")
    sink.close()

    again = PostgresSink(dsn)
    last = again.last_flush()
    assert last is not None
    assert last.position == b"one"
    again.restore(last.checkpoint)
    again.write([item(2)])
    again.flush(b"two")
    again.close()

    assert numbers(dsn) == [1, 2]
    assert asked(dsn, "SELECT 1 FROM _shoal_undo WHERE output = $1", table_of(dsn)) == []


def test_rows_are_counted_up_to_a_checkpoint(dsn: str) -> None:
    sink = opened(dsn)
    sink.write([item(1), item(2), item(2), Item("bad", b"\xff")])
    committed = sink.flush()
    sink.write([item(2), item(3)])
    sink.flush()
    sink.close()

    assert recount(dsn, committed) == 4

    asked(dsn, f"DELETE FROM {table_of(dsn)} WHERE _key = 'key-1'")
    with pytest.raises(Rejected, match="holds 1 rows, but 2 were written there"):
        recount(dsn, committed)
    asked(dsn, f"DROP TABLE {table_of(dsn)}")
    with pytest.raises(Rejected, match="not as this crawl has left it"):
        recount(dsn, committed)


def test_a_database_that_does_not_answer_is_not_counted() -> None:
    assert recount("postgresql://user@127.0.0.1:9/none", msgspec.msgpack.encode([b"", 0])) is None


def test_a_table_that_shoal_did_not_create_is_never_overwritten(dsn: str) -> None:
    asked(dsn, f"CREATE TABLE {table_of(dsn)} (dear int)")

    with pytest.raises(Misconfigured, match="not written"):
        PostgresSink(dsn, overwrite=True).restore(None)

    assert asked(dsn, f"SELECT dear FROM {table_of(dsn)}") == []


def test_table_names_are_quoted(server: Postgres) -> None:
    asked(server.dsn, "CREATE SCHEMA crawls")
    odd = """crawls.it"em{s}; drop"""
    sink = opened(f"{server.dsn}?table={odd.replace(' ', '%20').replace(';', '%3B')}")
    sink.write([item(1)])
    sink.flush()
    sink.close()
    assert asked(server.dsn, 'SELECT count(*) FROM crawls."it""em{s}; drop"')[0][0] == 1

    for table in ("x" * 64, "a.", ".", "x%00"):
        with pytest.raises(Misconfigured, match="cannot be the name of a table"):
            PostgresSink(f"{server.dsn}?table={table}")


def test_no_message_shows_a_password(server: Postgres, caplog: pytest.LogCaptureFixture) -> None:
    place = f"127.0.0.1:{server.port}/postgres"
    wrong = f"postgres://asked:hunter2@{place}?table=t"
    with caplog.at_level(logging.DEBUG), pytest.raises(Misconfigured, match="password") as caught:
        PostgresSink(wrong).restore(None)

    assert canonical_name(wrong) == f"postgresql://asked@{place}?table=t"
    assert canonical_name(f"{wrong}&sslmode=disable&password=hunter2") == canonical_name(wrong)
    assert "hunter2" not in f"{caught.value} {caplog.text}"


def test_a_password_can_come_from_the_environment(
    server: Postgres, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(dsn, f"CREATE ROLE asked LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    sink = opened(dsn.replace("postgres@", "asked@"))
    sink.write([item(1)])
    sink.flush()
    sink.close()

    assert numbers(dsn) == [1]


def test_an_address_that_refuses_connections_is_unavailable() -> None:
    with (
        refusing_port() as port,
        pytest.raises(Unavailable, match="the server cannot be reached: Connection refused"),
    ):
        PostgresSink(f"postgresql://user@127.0.0.1:{port}/none", retry_s=0.2).restore(None)


def test_a_server_that_accepts_a_connection_and_says_nothing_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_CONNECT_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/none"
        with pytest.raises(Unavailable, match="the server does not answer in time"):
            PostgresSink(dsn, retry_s=0.0).restore(None)


@pytest.mark.parametrize("overwrite", [False, True], ids=["kept", "fresh"])
def test_a_writer_that_was_suspended_while_opening_a_table_undoes_nothing(dsn: str, overwrite: bool) -> None:
    first, late = (PostgresSink(dsn, overwrite=overwrite, retry_s=0.0) for _ in range(2))
    assert first.last_flush() is late.last_flush() is None
    first.restore(None)
    first.write([item(1)])
    begun = first.flush(b"up to 1")

    with pytest.raises(Unavailable, match="another worker has written to it since"):
        late.restore(None)
    assert late.last_flush() == LastFlush(begun, b"up to 1")
    first.write([item(2)])
    first.flush(b"up to 2")

    with pytest.raises(Unavailable, match="another worker has written to it since"):
        late.restore(begun)
    last = late.last_flush()
    assert last is not None
    late.restore(last.checkpoint)
    late.write([item(3)])
    late.flush(b"up to 3")
    first.write([item(4)])
    with pytest.raises(Unavailable, match="another worker has written to it since"):
        first.flush(b"up to 4")
    assert numbers(dsn) == [1, 2, 3]
    first.close()
    late.close()
