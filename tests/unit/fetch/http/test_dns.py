"""Names to addresses, asked of a name server that answers as a test wants."""

import asyncio
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from shoal.fetch.http import dns
from shoal.fetch.http.dns import LOOPBACK, MAX_ADDRESSES, DnsResolver, is_nameserver
from shoal.fetch.http.guard import Guard
from shoal.model.failure import Failure, FailureClass

A, CNAME, AAAA = 1, 5, 28
NXDOMAIN, SERVFAIL = 3, 2


def record(name: bytes, kind: int, data: bytes, ttl: int = 60) -> bytes:
    return name + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


MALFORMED: dict[str, Callable[[bytes, int], bytes]] = {
    "junk": lambda data, _: data[:2] + b"\x81\x80" + b"\xff" * 30,
    "short": lambda data, _: data[:5],
    "torn": lambda data, end: data[:2] + b"\x81\x80\0\1\0\5\0\0\0\0" + data[12 : end + 5] + b"\xc0\x0c\0",
    "refused": lambda data, end: data[:2] + b"\x81\x85\0\1\0\0\0\0\0\0" + data[12 : end + 5],
}


class NameServer(asyncio.DatagramProtocol):
    """Answers by (first label, record type): a code, or records."""

    def __init__(self, zone: Callable[[str, int, bytes], int | list[bytes] | None]) -> None:
        self._zone = zone
        self.questions: list[tuple[str, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.DatagramTransport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        end = data.index(b"\0", 12)
        name, kind = data[12 : end + 1], struct.unpack_from("!H", data, end + 1)[0]
        label = name[1 : 1 + name[0]].decode()
        self.questions.append((label, kind))
        if (junk := MALFORMED.get(label.rstrip("0123456789"))) is not None:
            self.transport.sendto(junk(data, end), address)
            return
        answer = self._zone(label, kind, name)
        if answer is None:
            return
        code, records = (answer, []) if isinstance(answer, int) else (0, answer)
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        self.transport.sendto(head + data[12 : end + 5] + b"".join(records), address)


def zone(label: str, kind: int, name: bytes) -> int | list[bytes] | None:
    match label.rstrip("0123456789"):
        case "twelve":
            public = [bytes([93, 184, 215, n]) for n in range(11)]
            addresses = [*public, socket.inet_aton("169.254.169.254")]
            return [record(name, A, address) for address in addresses] if kind == A else []
        case "good" | "slow":
            address = (
                socket.inet_aton("192.0.2.7")
                if kind == A
                else socket.inet_pton(socket.AF_INET6, "2001:db8::7")
            )
            return [record(name, kind, address)]
        case "brief":
            return [record(name, A, socket.inet_aton("192.0.2.8"), ttl=0)] if kind == A else []
        case "many":
            return (
                [record(name, A, bytes([192, 0, n // 256, n % 256])) for n in range(500)] if kind == A else []
            )
        case "loop":
            return [record(name, CNAME, b"\x05other\x04test\0"), record(b"\x05other\x04test\0", CNAME, name)]
        case "broken":
            return SERVFAIL
        case "empty":
            return []
        case "silent":
            return None
        case "huge":
            return [record(name, 16, b"\xff" * 30_000), record(name, A, b"toolong" * 3000)]
    return NXDOMAIN


@asynccontextmanager
async def resolving(timeout: float = 4.0, names: int = 100) -> AsyncIterator[tuple[DnsResolver, NameServer]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: NameServer(zone), ("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    try:
        async with DnsResolver(nameservers=[f"127.0.0.1:{port}"], timeout=timeout, names=names) as resolver:
            yield resolver, server
    finally:
        transport.close()


async def test_a_name_has_all_its_addresses() -> None:
    async with resolving() as (resolver, _):
        answer = await resolver.resolve("good.test")
    assert isinstance(answer, tuple)
    assert set(answer) == {"192.0.2.7", "2001:db8::7"}


@pytest.mark.parametrize("label", ["missing", "broken", "empty", "loop", "huge"])
async def test_N11_a_dns_answer_without_an_address_is_a_dns_failure(label: str) -> None:
    async with resolving() as (resolver, _):
        answer = await resolver.resolve(f"{label}.test")
    assert isinstance(answer, Failure)
    assert answer.failure_class is FailureClass.DNS


async def test_a_name_server_that_does_not_respond_times_out() -> None:
    async with resolving(timeout=0.3) as (resolver, _):
        answer = await resolver.resolve("silent.test")
    assert isinstance(answer, Failure)
    assert answer.failure_class is FailureClass.DNS


async def test_an_answer_is_kept_even_if_it_says_that_it_holds_for_no_time() -> None:
    async with resolving() as (resolver, server):
        assert await resolver.resolve("brief.test") == await resolver.resolve("brief.test") == ("192.0.2.8",)
    assert server.questions.count(("brief", A)) == 1


async def test_a_failure_is_kept_for_a_moment() -> None:
    async with resolving() as (resolver, server):
        first = await resolver.resolve("missing.test")
        assert await resolver.resolve("missing.test") is first
    assert server.questions.count(("missing", A)) == 1


async def test_an_answer_is_asked_for_again_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "MIN_TTL_S", 0.0)
    async with resolving() as (resolver, server):
        await resolver.resolve("brief.test")
        await resolver.resolve("brief.test")
    assert server.questions.count(("brief", A)) == 2


async def test_concurrent_callers_share_one_query() -> None:
    async with resolving() as (resolver, server):
        answers = await asyncio.gather(*(resolver.resolve("good.test") for _ in range(100)))
    assert len(set(answers)) == 1
    assert server.questions.count(("good", A)) == 1


async def test_a_cancelled_caller_does_not_cancel_the_query_of_others() -> None:
    async with resolving() as (resolver, _):
        first = asyncio.create_task(resolver.resolve("good.test"))
        second = asyncio.create_task(resolver.resolve("good.test"))
        await asyncio.sleep(0)
        first.cancel()
        assert isinstance(await second, tuple)
        assert first.cancelled()


async def test_a_name_with_very_many_addresses_is_a_failure() -> None:
    async with resolving() as (resolver, _):
        answer = await resolver.resolve("many.test")
    # An answer this long does not fit into a datagram; c-ares may also refuse it altogether.
    assert isinstance(answer, Failure)


async def test_all_addresses_of_a_name_are_judged() -> None:
    async with resolving() as (resolver, _):
        answer = await resolver.resolve("twelve.test")
    assert isinstance(answer, tuple)
    assert len(answer) == 12
    assert Guard().check(answer[:8]) is None
    failure = Guard().check(answer)
    assert failure is not None
    assert "169.254.169.254" in failure.reason


@pytest.mark.parametrize("kind", ["junk", "short", "torn", "refused"])
async def test_names_with_malformed_answers_disturb_no_others(kind: str) -> None:
    async with resolving() as (resolver, _):
        names = [name for n in range(50) for name in (f"good{n}.test", f"{kind}{n}.evil.test")]
        answers = dict(zip(names, await asyncio.gather(*map(resolver.resolve, names)), strict=True))
    for name, answer in answers.items():
        assert isinstance(answer, tuple) is name.startswith("good"), (name, answer)


async def test_a_name_with_malformed_answers_is_asked_alone_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dns, "NEGATIVE_TTL_S", 0.0)
    async with resolving() as (resolver, _):
        await resolver.resolve("junk.test")
        good = asyncio.create_task(resolver.resolve("slow.test"))
        await asyncio.sleep(0)
        for _ in range(3):
            assert isinstance(await resolver.resolve("junk.test"), Failure)
        assert isinstance(await good, tuple)
        assert list(resolver._disturbing) == ["junk.test"]


async def test_N11_the_answers_for_a_hundred_thousand_hosts_stay_small() -> None:
    addresses = [f"2001:db8:1111:2222:3333:4444:5555:{n:04d}" for n in range(MAX_ADDRESSES)]
    async with DnsResolver() as resolver:
        tracemalloc.start()
        try:
            for n in range(100_000):
                host = f"{n}.{'x' * 63}.{'y' * 63}.test"
                # Mostly few addresses, now and then as many as are allowed.
                resolver._keep(host, tuple(addresses[: MAX_ADDRESSES if n % 5 == 0 else 4]), 60.0)
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size <= 32 << 20


async def test_the_cache_is_bounded() -> None:
    async with resolving(names=10) as (resolver, _):
        for n in range(30):
            await resolver.resolve(f"missing{n}.test")
        assert len(resolver._cache) == 10


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("192.0.2.1", ("192.0.2.1",)),
        ("2001:db8::1", ("2001:db8::1",)),
        ("localhost", LOOPBACK),
        ("x.localhost", LOOPBACK),
    ],
)
async def test_addresses_and_localhost_are_not_resolved_by_dns(host: str, answer: tuple[str, ...]) -> None:
    async with resolving() as (resolver, server):
        assert await resolver.resolve(host) == answer
    assert not server.questions


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("192.0.2.1", True),
        ("192.0.2.1:53", True),
        ("2001:db8::1", True),
        ("[2001:db8::1]:53", True),
        ("ns.example", False),
        ("192.0.2.1:", False),
        ("192.0.2.1:0", False),
        ("192.0.2.1:99999", False),
        ("192.0.2.1:x", False),
    ],
)
def test_a_name_server_is_an_address_perhaps_with_a_port(text: str, is_one: bool) -> None:
    assert is_nameserver(text) is is_one
