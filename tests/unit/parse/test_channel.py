"""The pool's end of a connection, with this test in the place of the child."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable

import msgspec
import pytest
from tests.unit.parse.tasks import task

from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse.channel import Channel, PendingPage
from shoal.parse.frames import HEADER, FrameType, checksummed_frame
from shoal.parse.verdict import KillReason

Parsing = Channel[ParseResult]


def pending_pages(*numbers: int) -> list[PendingPage[ParseResult]]:
    return [PendingPage(task(number), lambda _: None) for number in numbers]


def answers(channel: Parsing, numbers: Iterable[int]) -> bytes:
    results = (msgspec.msgpack.encode(ParseResult(number)) for number in numbers)
    return b"".join(checksummed_frame(channel.token, FrameType.RESULT, result) for result in results)


@pytest.fixture
async def channel() -> AsyncIterator[Parsing]:
    channel = Parsing(1, asyncio.get_running_loop(), output_bytes=10_000)
    yield channel
    channel.close()


@pytest.fixture
def child(channel: Parsing) -> Iterable[socket.socket]:
    with channel.open(lambda _: None) as sock:
        yield sock


def pages_left(channel: Parsing) -> list[int]:
    return [pending.task.id for pending in channel.unanswered]


async def test_answers_belong_to_the_pages_in_the_order_they_were_sent(
    channel: Parsing, child: socket.socket
) -> None:
    channel.send(pending_pages(1, 2))
    channel.send(pending_pages(3))
    child.sendall(answers(channel, [1, 2]))

    assert [(pending.task.id, result.id) for pending, result in channel.receive()] == [(1, 1), (2, 2)]
    assert pages_left(channel) == [3]
    assert list(channel.messages) == [1]


async def test_the_first_page_without_an_answer_is_blamed(channel: Parsing, child: socket.socket) -> None:
    channel.send(pending_pages(1, 2, 3))
    child.sendall(answers(channel, [1]))
    child.close()

    channel.receive(everything=True)

    assert channel.closed_by_child
    assert (culprit := channel.blamed_page()) is not None
    assert culprit.task.id == 2


async def test_a_child_without_pages_blames_no_page(channel: Parsing, child: socket.socket) -> None:
    channel.send(pending_pages(1))
    child.sendall(answers(channel, [1]))
    child.close()
    channel.receive(everything=True)

    assert channel.blamed_page() is None


async def test_a_page_that_was_answered_in_time_blames_no_other(
    channel: Parsing, child: socket.socket
) -> None:
    channel.send(pending_pages(1, 2))
    channel.blame(KillReason.OVERDUE)
    child.sendall(answers(channel, [1]))
    channel.receive(everything=True)

    assert channel.blamed_page() is None
    assert pages_left(channel) == [2]


@pytest.mark.parametrize("wrong", [b"x" * HEADER.size, b"an answer to page 2"], ids=["noise", "page"])
async def test_invalid_data_blames_the_page_being_parsed(
    wrong: bytes, channel: Parsing, child: socket.socket
) -> None:
    channel.send(pending_pages(0, 1, 2))
    child.sendall(answers(channel, [0]))
    child.sendall(wrong if wrong.startswith(b"x") else answers(channel, [2]))

    assert [pending.task.id for pending, _ in channel.receive()] == [0]
    assert channel.kill_reason is KillReason.INVALID_DATA
    assert (culprit := channel.blamed_page()) is not None
    assert culprit.task.id == 1


async def test_a_valid_frame_without_a_result_is_invalid_data(channel: Parsing, child: socket.socket) -> None:
    channel.send(pending_pages(1))
    child.sendall(checksummed_frame(channel.token, FrameType.RESULT, b"\xc1"))

    assert channel.receive() == []
    assert channel.kill_reason is KillReason.INVALID_DATA


async def test_data_that_the_socket_cannot_take_follows_in_order(
    channel: Parsing, child: socket.socket
) -> None:
    scope = msgspec.msgpack.encode(Scope(depth=3))
    big = [PendingPage[ParseResult](task(n, body=bytes([n]) * 2_000_000), lambda _: None) for n in range(3)]
    channel.send(big)
    channel.send_scope(scope)
    channel.send(pending_pages(7))
    reader, writer = await asyncio.open_unix_connection(sock=child)

    frames = []
    for _ in range(3):
        _, kind, length, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
        frames.append((kind, await reader.readexactly(length)))
    writer.close()

    assert [kind for kind, _ in frames] == [FrameType.TASKS, FrameType.SCOPE, FrameType.TASKS]
    arrived = msgspec.msgpack.decode(frames[0][1], type=list[ParseTask])
    assert arrived == [pending.task for pending in big]
    assert frames[1][1] == scope


async def test_sending_to_a_child_that_is_gone_is_not_an_error(
    channel: Parsing, child: socket.socket
) -> None:
    child.close()
    channel.send(pending_pages(1))

    assert channel.receive() == []
    assert channel.closed_by_child
    assert pages_left(channel) == [1]
