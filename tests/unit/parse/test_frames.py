import os
import socket
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.parse.frames import (
    HEADER,
    FrameReader,
    FrameType,
    InvalidFrame,
    checksummed_frame,
    header,
    receive,
)

TOKEN = 0xC0FFEE
MOST = 1000


def reader() -> FrameReader:
    return FrameReader(TOKEN, FrameType.RESULT, most=MOST)


def frame(payload: bytes) -> bytes:
    return checksummed_frame(TOKEN, FrameType.RESULT, payload)


def read(cut: FrameReader, *pieces: bytes) -> list[bytes]:
    return [bytes(payload) for piece in pieces for payload in cut.feed(memoryview(piece))]


@given(payloads=st.lists(st.binary(max_size=50)), cuts=st.lists(st.integers(0, 500)))
def test_a_stream_gives_the_same_payloads_wherever_it_is_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, payloads))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]

    whole = reader()

    assert read(whole, *pieces) == payloads
    assert not whole.invalid


@given(junk=st.binary(min_size=HEADER.size, max_size=200))
def test_bytes_of_user_code_between_frames_are_detected_and_earlier_answers_kept(junk: bytes) -> None:
    damaged = reader()

    assert read(damaged, frame(b"one") + frame(b"two") + junk + frame(b"three")) == [b"one", b"two"]
    assert damaged.invalid
    assert read(damaged, frame(b"four")) == []


@given(payload=st.binary(min_size=1, max_size=50), data=st.data())
def test_a_payload_with_a_wrong_checksum_is_invalid(payload: bytes, data: st.DataObject) -> None:
    bits = bytearray(frame(payload))
    spot = data.draw(st.integers(HEADER.size, len(bits) - 1))
    bits[spot] ^= 1 << data.draw(st.integers(0, 7))
    damaged = reader()

    assert read(damaged, bytes(bits)) == []
    assert damaged.invalid


def test_a_header_with_a_length_above_the_limit_is_invalid_at_once() -> None:
    damaged = reader()

    assert read(damaged, HEADER.pack(TOKEN, FrameType.RESULT, MOST + 1, 0)) == []
    assert damaged.invalid


def test_a_frame_of_another_type_is_invalid() -> None:
    damaged = reader()

    assert read(damaged, checksummed_frame(TOKEN, FrameType.CONTROL, b"")) == []
    assert damaged.invalid


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_a_frame_brings_its_file_descriptor_along(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    socket.send_fds(near, [header(TOKEN, FrameType.CONTROL, b"take this") + b"take this"], [near.fileno()])

    received = receive(far, TOKEN)

    assert received is not None
    kind, payload, passed = received
    assert (kind, bytes(payload)) == (FrameType.CONTROL, b"take this")
    assert passed is not None
    assert os.path.sameopenfile(passed, near.fileno())
    assert not os.get_inheritable(passed)
    os.close(passed)


@pytest.mark.parametrize(
    "sent",
    [b"", header(TOKEN, FrameType.TASKS, b"12345")[:7], header(TOKEN, FrameType.TASKS, b"12345") + b"123"],
)
def test_a_parent_that_closes_the_connection_ends_the_loop(
    sent: bytes, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    near.sendall(sent)
    near.close()

    assert receive(far, TOKEN) is None


def test_a_connection_that_user_code_read_from_is_detected(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    near.sendall(header(TOKEN, FrameType.TASKS, b"pages" * 10) + b"pages" * 10)
    far.recv(5)

    with pytest.raises(InvalidFrame):
        receive(far, TOKEN)
