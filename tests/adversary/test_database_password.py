"""A database server that asks for the password in clear text, and what it gets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
from tests.servers.postgres import PASSWORD
from tests.servers.shared import shared_database

from shoal.model.errors import Misconfigured
from shoal.sinks.postgres.password_guard import LoginGuard, needs_guard
from shoal.sinks.postgres.session import Session

ELSEWHERE = "[::ffff:127.0.0.1]"  # this machine, in a spelling that does not count as local


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


CLEAR, MD5 = message(b"R", (3).to_bytes(4)), message(b"R", (5).to_bytes(4) + b"salt")
NOTICE = message(b"N", b"SWARNING\0Mhello\0\0")
LOGGED_IN = message(b"R", (0).to_bytes(4))


@asynccontextmanager
async def lying_server(asks: bytes, *, slowly: bool = False) -> AsyncIterator[tuple[int, bytearray]]:
    """Serve an "upgrade to TLS: no", then ask for the password; record what arrives."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            received.extend(data)
            if data.endswith((80877103).to_bytes(4)):
                writer.write(b"N")
            elif asks:
                for start in range(0, len(asks), 1 if slowly else len(asks)):
                    writer.write(asks[start : start + (1 if slowly else len(asks))])
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received


@pytest.mark.parametrize(
    "asks", [CLEAR, MD5, NOTICE + CLEAR, LOGGED_IN + CLEAR], ids=["clear", "md5", "notice", "late"]
)
@pytest.mark.parametrize("slowly", [False, True], ids=["at once", "byte by byte"])
async def test_a_password_is_not_sent_to_a_server_that_asks_for_it_in_clear_text(
    asks: bytes, slowly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    async with lying_server(asks, slowly=slowly) as (port, received):
        dsn = f"postgresql://shoal@{ELSEWHERE}:{port}/x"
        with closing(Session(dsn, name="db", retry_s=0.0, first_statement="SELECT 1")) as session:
            with pytest.raises(Misconfigured, match="sslmode=verify-full"):
                await asyncio.to_thread(session.run, lambda connection: connection.execute("SELECT 1"))
    assert b"shoal" in received  # it was asked for
    assert b"hunter2" not in received
    assert b"md5" not in received


async def test_a_server_that_asks_for_scram_gets_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with shared_database() as local:
        dsn = local.replace("127.0.0.1", ELSEWHERE).replace("postgres@", "asked@")
        assert needs_guard(dsn)
        with closing(Session(dsn, name="db", retry_s=0.0, first_statement="SELECT 1")) as session:
            found = await asyncio.to_thread(session.run, lambda one: one.fetchval("SELECT 6 * 7"))
    assert found == 42


@pytest.mark.parametrize(
    ("dsn", "guarded"),
    [
        ("postgresql://db/x", True),
        ("postgresql://u@10.0.0.1:5432/x", True),
        ("postgresql://u@db/x?sslmode=require", True),
        ("postgresql://u@db/x?sslmode=disable", True),
        ("postgresql://u@db/x?sslmode=verify-full", False),
        ("postgresql://localhost/x?host=db", True),
        ("postgresql://localhost,db/x", True),
        ("postgresql://localhost/x?service=other", True),
        ("postgresql://localhost.evil/x", True),
        ("postgresql://127.0.0.1.evil/x", True),
        ("postgresql:///x", False),
        ("postgresql://localhost/x", False),
        ("postgresql://u@127.0.0.1:1/x", False),
        ("postgresql://u@[::1]:1/x", False),
        ("postgresql://%2Frun%2Fpostgresql/x", False),
        ("postgresql:///x?host=/run/postgresql", False),
    ],
)
def test_only_servers_of_this_machine_and_verified_ones_may_ask_for_anything(dsn: str, guarded: bool) -> None:
    assert needs_guard(dsn) is guarded


def test_a_server_that_sends_junk_is_refused() -> None:
    for junk in (b"\xff" * 100, b"R\0\0\0\0", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        assert LoginGuard().take(junk)[1]
