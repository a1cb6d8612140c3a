"""What is held at the egress until the turn of a host: which bytes, on which connection, and until when."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_client import Turns

from shoal.fetch.egress import paced_request
from shoal.fetch.egress.paced_request import Handshake, PacedRequest
from shoal.model.errors import Unavailable

HELLO = b"\x16\x03\x01\x00\x05hello"
CIPHER = b"\x14\x03\x03\x00\x01\x01"
REQUEST = b"\x17\x03\x03\x00\x07request"
SHOP = "https://shop.example"


@given(st.lists(st.integers(1, 40), max_size=20))
def test_the_end_of_a_handshake_is_found_however_the_bytes_arrive(cuts: list[int]) -> None:
    sent, handshake = HELLO + CIPHER + REQUEST, Handshake()
    passed = at = 0
    for size in [*cuts, len(sent)]:
        part = sent[at : at + size]
        at += len(part)
        passed += handshake.length(part)
    assert sent[:passed] == HELLO + CIPHER
    assert handshake.has_ended


def test_early_data_is_held_behind_the_first_message() -> None:
    assert Handshake().length(HELLO + REQUEST) == len(HELLO)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", REQUEST, b"\x00"])
def test_what_is_not_a_handshake_is_held_from_its_first_byte(data: bytes) -> None:
    handshake = Handshake()
    assert (handshake.length(data), handshake.has_ended) == (0, True)


async def test_the_turn_is_taken_once_for_a_connection() -> None:
    turns = Turns()
    paced = PacedRequest(turns, SHOP)
    for _ in range(2):
        assert await paced.may_send("a", "127.0.0.1")
    paced.sent("a")
    paced.answered()
    paced.answered()
    assert (turns.taken, turns.sends, turns.answers) == (1, 1, 1)


async def test_after_the_answer_every_connection_may_send() -> None:
    turns = Turns()
    paced = PacedRequest(turns, SHOP)
    assert await paced.may_send("a", "")
    paced.sent("a")
    waiting = asyncio.create_task(paced.may_send("b", ""))
    await asyncio.sleep(0.05)
    assert not waiting.done(), "it may carry the same request a second time"
    paced.answered()
    assert await waiting
    paced.sent("b")
    assert (turns.taken, turns.sends) == (1, 1)


async def test_a_second_try_takes_a_turn() -> None:
    turns = Turns()
    paced = PacedRequest(turns, SHOP)
    assert await paced.may_send("a", "")
    paced.sent("a")
    waiting = asyncio.create_task(paced.may_send("b", ""))
    await asyncio.sleep(0)
    paced.closed("a")
    assert await waiting
    paced.sent("b")
    assert (turns.taken, turns.sends) == (2, 2)


async def test_a_second_connection_takes_a_turn_if_the_first_stays_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paced_request, "STRAY_S", 0.05)
    turns = Turns()
    paced = PacedRequest(turns, SHOP)
    assert await paced.may_send("a", "")
    assert await paced.may_send("b", "")
    assert turns.taken == 2


async def test_a_turn_that_is_too_far_away_drops_the_request_on_every_connection() -> None:
    turns = Turns(3.5)
    paced = PacedRequest(turns, SHOP)
    assert not await paced.may_send("a", "")
    assert not await paced.may_send("b", "")
    assert (paced.not_sent, turns.taken, paced.sent_at) == (3.5, 1, None)


async def test_a_store_that_cannot_be_asked_ends_the_request_and_nothing_else() -> None:
    class Away(Turns):
        async def take(self, address: str = "") -> float:
            raise Unavailable("the store is away")

    paced = PacedRequest(Away(), SHOP)
    assert not await paced.may_send("a", "")
    with pytest.raises(Unavailable):
        paced.check()


async def test_a_connection_that_ends_while_it_waits_leaves_the_turn_to_the_next() -> None:
    class Slow(Turns):
        async def take(self, address: str = "") -> float:
            await asyncio.sleep(0 if self.taken else 60)
            return await super().take(address)

    turns = Slow()
    paced = PacedRequest(turns, SHOP)
    first = asyncio.create_task(paced.may_send("a", ""))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    turns.taken = 1
    assert await paced.may_send("b", "")
