"""No bytes of a server raise an error in the HTTP client, or take time or memory out of proportion."""

import asyncio
import random
import struct

import pytest
from tests.adversary.size import sized
from tests.adversary.wire_parsers import PARSERS
from tests.fuzzing import KIB, MIB, Parser, check_errors, check_growth, check_memory

from shoal.fetch.http.dns import DnsResolver


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_parser_survives_damaged_input(parser: Parser) -> None:
    check_errors(parser, rounds=sized(150, full=20_000))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_the_time_of_a_parser_grows_with_its_input_and_not_faster(parser: Parser) -> None:
    check_growth(parser, max_bytes=sized(32 * KIB, full=1 * MIB), shapes=sized(20, full=1000))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_the_memory_of_a_parser_grows_with_its_input_and_not_faster(parser: Parser) -> None:
    check_memory(parser, max_bytes=sized(64 * KIB, full=2 * MIB), shapes=sized(4, full=100))


class DamagingNameServer(asyncio.DatagramProtocol):
    """Answers every question with a valid answer that is damaged at random."""

    def __init__(self) -> None:
        self._dice = random.Random(1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.DatagramTransport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        end = data.index(b"\0", 12)
        name = data[12 : end + 1]
        records = [name + struct.pack("!HHIH", 1, 1, 60, 4) + bytes([192, 0, 2, n]) for n in range(5)]
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0)
        answer = bytearray(head + data[12 : end + 5] + b"".join(records))
        for _ in range(self._dice.randint(1, 8)):
            answer[self._dice.randrange(2, len(answer))] = self._dice.randrange(256)
        self._transport.sendto(bytes(answer[: self._dice.randint(2, len(answer))]), address)


async def test_damaged_dns_answers_end_in_addresses_or_failures() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(DamagingNameServer, ("127.0.0.1", 0))
    server = f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    try:
        async with asyncio.timeout(60), DnsResolver(nameservers=[server], timeout=2.0) as resolver:
            names = (f"{n}.fuzz.test" for n in range(sized(60, full=2_000)))
            answers = await asyncio.gather(*map(resolver.resolve, names))
    finally:
        transport.close()
    assert all(isinstance(answer, tuple) or answer.reason for answer in answers)
