"""Hostile clients: large, slow, many, malformed. The server stays up, in bounded memory, and answers others."""

import asyncio
import gzip
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
from tests.integration.server.running import RunningServer, parse_reply, running_server

from shoal.model.api.roles import Role
from shoal.server.access.places import RequestPlaces
from shoal.server.http import app as application
from shoal.server.http import connections

MIB = 1 << 20
SEEDS = "/api/v1/crawls/x/seeds"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, rate_per_s=10_000) as running:
        yield running
        assert (await running.send("GET", "/healthz", role=None)).status == 200


def head(server: RunningServer, *lines: str, method: str = "POST", path: str = SEEDS) -> bytes:
    """Return the head of a request with a good token, open for more headers."""
    sent = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    sent += [f"Authorization: Bearer {server.tokens[Role.ADMIN]}", *lines]
    return "".join(f"{line}\r\n" for line in sent).encode("latin-1")


BOMBS = {
    "depth": b'{"urls":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "unknown depth": b'{"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "digits": b'{"urls":[' + b"9" * 1_000_000 + b"]}",
    "keys": b"{" + b",".join(b'"k%d":1' % n for n in range(80_000)) + b"}",
    "duplicate keys": b'{"urls":["http://a.test/"],"urls":[]}',
    "nan": b'{"urls":[NaN]}',
    "infinity": b'{"urls":[-Infinity]}',
    "lone surrogate": b'{"urls":["http://a.test/\\ud800"],"x":1}',
    "invalid utf-8": b'{"urls":["http://a.test/\xff"]}',
    "empty": b"",
    "not json": b"<xml/>",
    "trailing": b'{"urls":["http://a.test/"]} x',
    "scalar": b"1",
    "null": b"null",
    "bom": b"\xef\xbb\xbf{}",
}


async def test_json_that_is_a_bomb_is_answered_with_400(server: RunningServer) -> None:
    for name, body in BOMBS.items():
        reply = await server.send("POST", SEEDS, body=body)
        assert (reply.status, reply.json()["code"]) == (400, "bad_body"), name
        assert len(reply.body) < 2_000


async def test_a_lone_surrogate_in_a_value_is_never_stored(server: RunningServer) -> None:
    body = b'{"urls":["http://a.test/\\ud800"]}'
    assert (await server.send("POST", SEEDS, body=body)).status in (400, 404, 422)


async def test_a_body_that_is_not_declared_as_json_is_refused(server: RunningServer) -> None:
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "application/jsonx",
        "multipart/form-data",
    ):
        reply = await server.send("POST", SEEDS, body=b'{"urls":[]}', headers={"Content-Type": kind})
        assert reply.status == 415, kind


async def test_a_compressed_body_is_refused_before_it_is_read(server: RunningServer) -> None:
    bomb = gzip.compress(b"0" * 16 * MIB)
    reply = await server.send("POST", SEEDS, body=bomb, headers={"Content-Encoding": "gzip"})
    assert (reply.status, reply.json()["code"]) == (415, "compressed_body")


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_that_is_too_large_is_refused_and_not_kept(server: RunningServer, framing: str) -> None:
    before = psutil.Process().memory_info().rss
    if framing == "length":
        raw = (
            head(server, "Content-Type: application/json", f"Content-Length: {10 << 30}")
            + b"\r\n"
            + b"1" * 65536
        )
    else:
        chunk = b"100000\r\n" + b"1" * MIB + b"\r\n"
        raw = (
            head(server, "Content-Type: application/json", "Transfer-Encoding: chunked")
            + b"\r\n"
            + chunk * 64
        )
    answer = await server.raw(raw)
    if answer:  # the connection may be reset while the client still sends
        assert parse_reply(answer).status == 413
    assert psutil.Process().memory_info().rss - before < 128 * MIB  # 64 of them are the test's own


async def test_a_get_takes_no_body(server: RunningServer) -> None:
    reply = await server.send("GET", "/api/v1/crawls", body=b"1" * 100)
    assert reply.status == 413


async def test_a_body_that_a_route_does_not_take_is_refused_before_it_arrives(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "BODY_TIMEOUT_S", 3_600.0)
    for framing in ("Transfer-Encoding: chunked", "Content-Length: 1", "Content-Length: 009"):
        raw = head(server, framing, method="GET", path="/api/v1/crawls") + b"\r\n"
        assert parse_reply(await server.raw(raw, timeout=60)).status == 413, framing


async def open_requests(server: RunningServer, count: int, raw: bytes) -> list[socket.socket]:
    """Send the same request on `count` connections, and read no answer."""
    opened = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", server.port))
        one.sendall(raw)
        one.setblocking(False)
        opened.append(one)
        await asyncio.sleep(0)
    return opened


async def first_line(connection: socket.socket) -> bytes:
    async with asyncio.timeout(60):
        return (await asyncio.get_running_loop().sock_recv(connection, 65536)).partition(b"\r\n")[0]


async def test_one_token_cannot_take_the_places_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.ConnectionBook.__init__, "__defaults__", (20,))
    monkeypatch.setattr(RequestPlaces.__init__, "__defaults__", (16, 8, 4))
    async with running_server(tmp_path, rate_per_s=10_000) as server:
        slow = head(server, "Content-Type: application/json", "Content-Length: 100") + b"\r\n{"
        opened = await open_requests(server, 9, slow)
        try:
            assert b"429" in await first_line(opened[-1])
            reply = await server.send("GET", "/api/v1/crawls")
            assert (reply.status, reply.json()["code"]) == (429, "too_many_in_progress")
            assert (await server.send("GET", "/api/v1/crawls", role=Role.READ)).status == 200
            assert (await server.send("GET", "/healthz", role=None)).status == 200
        finally:
            for one in opened:
                one.close()
        await until_status(server, "/api/v1/crawls", 200)


async def test_one_token_may_follow_so_many_streams_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestPlaces.__init__, "__defaults__", (16, 8, 4))
    async with running_server(tmp_path, rate_per_s=10_000) as server:
        opened = await open_requests(server, 5, head(server, method="GET", path="/api/v1/events") + b"\r\n")
        try:
            assert sorted([(await first_line(one)).split()[1] for one in opened]) == [b"200"] * 4 + [b"429"]
            assert (await server.send("GET", "/api/v1/crawls")).status == 200
        finally:
            for one in opened:
                one.close()


async def until_status(server: RunningServer, path: str, wanted: int) -> None:
    for _ in range(1_500):
        if (await server.send("GET", path)).status == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the status of {path} did not become {wanted}")


@pytest.mark.parametrize(
    "lines",
    [
        [f"X-{n}: 1" for n in range(2_000)],
        ["X: " + "a" * 100_000],
        [f"X-{n}: 1" for n in range(150)],
        ["Cookie: " + "a=b; " * 20_000],
    ],
    ids=["many", "long", "over the count", "cookies"],
)
async def test_a_flood_of_headers_is_refused(server: RunningServer, lines: list[str]) -> None:
    sent = head(server, "Connection: close", *lines, method="GET", path="/api/v1/crawls")
    answer = await server.raw(sent + b"\r\n")
    assert parse_reply(answer).status in (400, 431)


MALFORMED = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


async def test_a_malformed_request_never_gets_an_answer_of_the_api(server: RunningServer) -> None:
    for raw in MALFORMED:
        answer = await server.raw(raw, timeout=60)
        assert answer == b"" or parse_reply(answer).status in (400, 401, 403), raw


async def test_no_value_of_a_request_becomes_a_header_of_the_answer(server: RunningServer) -> None:
    for path in (
        "/api/v1/crawls/a%0d%0aX-Evil:%201",
        "/api/v1/hosts/a%0d%0aX-Evil:%201",
        "/api/v1/crawls?cursor=%0d%0aX-Evil:1",
    ):
        reply = await server.send("GET", path)
        assert reply.status in (400, 404, 422)
        assert "x-evil" not in reply.headers


async def test_static_files_are_those_of_the_dashboard_only(server: RunningServer) -> None:
    for path in (
        "/static/../../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/..%2f..%2ftokens.json",
        "/static//etc/passwd",
        "/static/\\..\\x",
    ):
        assert (await server.send("GET", path)).status == 404, path


async def test_a_websocket_is_not_opened(server: RunningServer) -> None:
    upgrade = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head(server, *upgrade, method="GET", path="/api/v1/crawls") + b"\r\n")
    async with asyncio.timeout(30):
        first = await reader.readline()
    writer.close()
    assert b"101" not in first


REFUSED_SUBMISSIONS: list[dict[str, object]] = [
    {"outputs": ["../../x.jsonl"]},
    {"outputs": ["/etc/x.jsonl"]},
    {"outputs": ["a\x00.jsonl"]},
    {"outputs": ["a" * 300 + ".jsonl"]},
    {"outputs": ["CON"]},
    {"outputs": ["postgresql://db/x"]},
    {"outputs": ["-"]},
    {"name": "<script>alert(1)</script>"},
    {"name": "a\nb"},
    {"name": "\u202egpj.exe"},
    {"name": "a" * 1_000_000},
    {"name": "--fresh"},
    {"follow": "a" * 2_000},
    {"allow_private": True},
    {"proxies": ["http://evil.example"]},
    {"spider_text": "import os"},
    {"fields": {"a\nb": "x"}},
]


async def test_a_submission_says_less_than_a_command_line(server: RunningServer) -> None:
    for submission in REFUSED_SUBMISSIONS:
        reply = await server.send("POST", "/api/v1/crawls", body={"urls": ["http://a.test/"], **submission})
        assert reply.status in (400, 413), list(submission)


async def test_no_submission_becomes_an_option_of_the_command(server: RunningServer) -> None:
    body = {"urls": ["--allow-private", "-a", "http://127.0.0.1/"], "name": "x"}
    reply = await server.send("POST", "/api/v1/crawls", body=body)
    assert reply.status == 422
    assert "none is accepted" in reply.json()["detail"]


async def test_what_makes_a_crawl_less_polite_needs_the_role_admin(server: RunningServer) -> None:
    for field in ({"robots": False}, {"fresh": True}):
        body = {"urls": ["http://a.test/"], **field}
        reply = await server.send("POST", "/api/v1/crawls", role=Role.OPERATE, body=body)
        assert (reply.status, reply.json()["code"]) == (403, "role_too_small")


async def test_each_of_10_000_seeds_gets_a_verdict_and_more_are_refused(server: RunningServer) -> None:
    body = {"urls": [*(f"http://a.test/{n}" for n in range(9_998)), "http://127.0.0.1/", "http://a.test/1"]}
    reply = await server.send("POST", "/api/v1/crawls/missing/seeds", body=body)
    assert reply.status in (404, 422)  # there is no such crawl; the body was accepted
    body["urls"].append("http://a.test/more")
    assert (await server.send("POST", "/api/v1/crawls/missing/seeds", body=body)).status == 400


async def test_a_slow_head_ends_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.LimitedProtocol, "head_timeout_s", 0.5)
    monkeypatch.setattr("shoal.server.serve.protocol_for", _quick_protocol)
    async with running_server(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        began = time.monotonic()
        sent = 0
        async with asyncio.timeout(60):
            while not reader.at_eof():
                try:
                    writer.write(b"G" if not sent else b"E")
                    await writer.drain()
                except ConnectionError:
                    break
                sent += 1
                try:
                    async with asyncio.timeout(0.1):
                        if await reader.read(1) == b"":
                            break
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
        writer.close()
        assert time.monotonic() - began < 50
        assert (await server.send("GET", "/healthz", role=None)).status == 200


def _quick_protocol(book: connections.ConnectionBook) -> type[connections.LimitedProtocol]:
    return connections.protocol_for(book, head_timeout_s=0.5, write_timeout_s=0.5)


async def test_a_slow_body_ends_after_its_time(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "BODY_TIMEOUT_S", 0.3)
    raw = head(server, "Content-Type: application/json", "Content-Length: 100") + b"\r\n{"
    assert parse_reply(await server.raw(raw)).status == 408


async def test_idle_connections_beyond_the_limit_keep_no_one_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.ConnectionBook.__init__, "__defaults__", (50,))
    async with running_server(tmp_path) as server:
        idle = []
        try:
            for _ in range(400):
                one = socket.create_connection(("127.0.0.1", server.port))
                idle.append(one)
                if len(idle) % 50 == 0:
                    await asyncio.sleep(0)
            reply = await server.send("GET", "/healthz", role=None)
            assert reply.status == 200
            assert (await server.send("GET", "/api/v1/crawls")).status == 200
            await eventually(lambda: _connections(server.port) <= 60)
        finally:
            for one in idle:
                one.close()


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not become true within 30 seconds")


def _connections(port: int) -> int:
    """Count the connections that this process has accepted and not closed."""
    mine = psutil.Process(os.getpid()).net_connections("tcp")
    return sum(one.laddr.port == port and one.status == "ESTABLISHED" for one in mine)


async def test_clients_that_never_read_events_are_dropped_and_cost_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.server.serve.protocol_for", _quick_protocol)
    monkeypatch.setattr("shoal.server.state.events.EVERY_S", 0.01)
    async with running_server(tmp_path, rate_per_s=100_000) as server:
        before = psutil.Process().memory_info().rss
        clients = []
        try:
            for _ in range(100):
                one = socket.create_connection(("127.0.0.1", server.port))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.sendall(head(server, method="GET", path="/api/v1/events") + b"\r\n")
                clients.append(one)
                await asyncio.sleep(0)
            await asyncio.sleep(2.0)
            assert (await server.send("GET", "/healthz", role=None)).status == 200
            assert psutil.Process().memory_info().rss - before < 64 * MIB
        finally:
            for one in clients:
                one.close()


async def test_one_token_that_sends_too_much_is_slowed_and_another_is_not(tmp_path: Path) -> None:
    async with running_server(tmp_path, rate_per_s=2) as server:
        statuses = [(await server.send("GET", "/api/v1/workers", role=Role.READ)).status for _ in range(30)]
        assert statuses[0] == 200
        assert 429 in statuses
        assert (await server.send("GET", "/api/v1/workers", role=Role.OPERATE)).status == 200


async def test_ten_repetitions_with_one_key_are_one_change(server: RunningServer) -> None:
    schedule = {"name": "nightly", "every_s": 3600, "crawl": {"urls": ["http://a.test/"]}}
    key = {"Idempotency-Key": "k"}
    replies = [await server.send("POST", "/api/v1/schedules", body=schedule, headers=key) for _ in range(10)]
    assert [reply.status for reply in replies] == [201] * 10
    assert len((await server.send("GET", "/api/v1/schedules")).json()["schedules"]) == 1
