"""Content decoding within limits."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from shoal.fetch.http.decode import MAX_MEMBERS, PIECE_BYTES, SMALL_BYTES, Decoder, _pieces, decode_archived
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import KIB, MIB, FetchLimits

LIMITS = FetchLimits()


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": lambda data: zlib.compress(data, 1),
    "raw deflate": raw_deflate,
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstd.compress,
}


async def decode(wire: bytes, encoding: str, limits: FetchLimits = LIMITS) -> bytes | Failure:
    return await Decoder().decode(wire, encoding, limits)


async def kind(wire: bytes, encoding: str, limits: FetchLimits = LIMITS) -> FailureClass:
    result = await decode(wire, encoding, limits)
    assert isinstance(result, Failure)
    return result.failure_class


def noise(size: int) -> bytes:
    """Bytes that compress, but by far less than the ratio of a bomb."""
    return b"".join(n.to_bytes(4, "big") for n in range(size // 4)) + b"x" * (size % 4)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    "size", [0, 1, 1000, PIECE_BYTES, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 3 * MIB + 7]
)
async def test_encoded_bodies_of_any_size_are_decoded(name: str, size: int) -> None:
    body = noise(size)
    packed = PACKERS[name](body)
    assert await decode(packed, name.removeprefix("raw ")) == body
    assert decode_archived(packed, name.removeprefix("raw "), size) == body


@given(
    body=st.binary(max_size=5000),
    names=st.lists(st.sampled_from(["gzip", "deflate", "br", "zstd"]), max_size=2),
)
async def test_encodings_are_undone_in_reverse(body: bytes, names: list[str]) -> None:
    packed = body
    for name in names:
        packed = PACKERS[name](packed)
    assert await decode(packed, ", ".join(names)) == body


@given(size=st.integers(0, 3000), step=st.integers(1, 3000), name=st.sampled_from([*PACKERS]))
def test_pieces_of_any_size_make_the_whole(size: int, step: int, name: str) -> None:
    body = noise(size)
    assert b"".join(_pieces(name.removeprefix("raw "), PACKERS[name](body), step)) == body


async def test_a_body_without_encoding_is_the_same_object() -> None:
    wire = b"as it came"
    assert await decode(wire, "identity") is wire


async def test_an_empty_body_needs_no_decoding() -> None:
    assert await decode(b"", "gzip") == b""


@pytest.mark.parametrize("header", ["sdch", "compress", "none", "utf-8", "utf-8, none", ",", ""])
async def test_H32_an_unknown_encoding_is_ignored(header: str) -> None:
    assert await decode(b"as sent", header) == decode_archived(b"as sent", header, None) == b"as sent"


@pytest.mark.parametrize("header", ["gzip, utf-8", "none, gzip", "UTF-8,GZIP", "x-gzip, identity"])
async def test_H32_known_encodings_beside_unknown_ones_are_decoded(header: str) -> None:
    assert await decode(gzip.compress(b"page"), header) == b"page"


async def test_H32_more_than_two_encodings_are_a_bomb() -> None:
    assert await kind(b"x", "gzip, gzip, gzip") is FailureClass.BOMB


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("size", [5_000, 2 * MIB])
async def test_H33_a_body_that_ends_early_is_truncated(name: str, size: int) -> None:
    packed = PACKERS[name](noise(size))
    assert await kind(packed[: len(packed) // 2], name.removeprefix("raw ")) is FailureClass.TRUNCATED
    assert await kind(packed[:-1], name.removeprefix("raw ")) is FailureClass.TRUNCATED


async def test_H33_a_bad_checksum_is_a_decode_failure() -> None:
    packed = gzip.compress(noise(5_000))
    assert await kind(packed[:-8] + b"12345678", "gzip") is FailureClass.DECODE


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
async def test_a_page_that_only_claims_to_be_encoded_is_a_decode_failure(name: str) -> None:
    assert await kind(b"<!doctype html><title>not packed</title>" * 10, name) is FailureClass.DECODE


@pytest.mark.parametrize("name", ["gzip", "zstd"])
async def test_H33_data_after_the_last_member_is_ignored(name: str) -> None:
    packed = PACKERS[name](b"the page")
    assert await decode(packed + b"\0garbage" * 100_000, name) == b"the page"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
async def test_H33_members_are_joined_up_to_a_number(name: str) -> None:
    packed = PACKERS[name](b"ab")
    assert await decode(packed * MAX_MEMBERS, name) == b"ab" * MAX_MEMBERS
    assert await kind(packed * (MAX_MEMBERS + 1), name) is FailureClass.DECODE


@pytest.mark.parametrize("name", PACKERS)
async def test_a_decoded_body_above_its_limit_is_a_bomb(name: str) -> None:
    limits = replace(LIMITS, body_bytes=100 * KIB)
    encoding = name.removeprefix("raw ")
    assert await kind(PACKERS[name](noise(100 * KIB + 1)), encoding, limits) is FailureClass.BOMB
    assert await decode(PACKERS[name](noise(100 * KIB)), encoding, limits) == noise(100 * KIB)


async def test_the_ratio_counts_only_past_its_threshold() -> None:
    assert await decode(gzip.compress(bytes(MIB)), "gzip") == bytes(MIB)
    assert await kind(gzip.compress(bytes(2 * MIB)), "gzip") is FailureClass.BOMB
    lax = replace(LIMITS, ratio=2000)
    assert await decode(gzip.compress(bytes(2 * MIB)), "gzip", lax) == bytes(2 * MIB)


async def test_the_ratio_is_to_the_wire_also_through_two_encodings() -> None:
    assert await kind(gzip.compress(gzip.compress(bytes(8 * MIB))), "gzip, gzip") is FailureClass.BOMB


def test_an_archived_body_that_cannot_be_decoded_is_rejected() -> None:
    with pytest.raises(Rejected, match="ends early"):
        decode_archived(gzip.compress(b"page")[:-3], "gzip", 4)
    for recorded in (3, 5):
        with pytest.raises(Rejected, match=r"recorded|above 3 bytes"):
            decode_archived(gzip.compress(b"page"), "gzip", recorded)


def test_an_archived_body_is_decoded_under_the_limits_that_it_was_fetched_under() -> None:
    body = bytes(33 * MIB)
    wire = gzip.compress(body, 1)
    assert decode_archived(wire, "gzip", len(body)) == body
    assert decode_archived(wire, "gzip", None) == body  # written by an older version
    with pytest.raises(Rejected, match="above"):
        decode_archived(wire, "gzip", MIB)


def test_a_layer_around_an_archived_body_may_be_larger_than_the_body() -> None:
    for body in (b"", b"page", bytes(range(256))):
        wire = gzip.compress(gzip.compress(body))
        assert len(gzip.compress(body)) > len(body)
        assert decode_archived(wire, "gzip, gzip", len(body)) == body
        with pytest.raises(Rejected, match=r"recorded|above"):
            decode_archived(wire, "gzip, gzip", len(body) + 1)


SKIPPABLE = b"\x5a\x2a\x4d\x18\x04\0\0\0skip"
STREAMS = {
    **{name: pack(noise(900)) for name, pack in PACKERS.items()},
    "gzip members": gzip.compress(noise(300)) * 3,
    "zstd frames": zstd.compress(noise(300)) * 3,
    "zstd frames to skip": SKIPPABLE + zstd.compress(noise(450)) + SKIPPABLE * 2 + zstd.compress(noise(450)),
    "gzip, gzip": gzip.compress(gzip.compress(noise(900))),
    "gzip, br": brotli.compress(gzip.compress(noise(900))),
}
# Where a stream ends as it could have been sent: between two members, or empty.
ENDS = {
    "gzip members": [len(gzip.compress(noise(300))) * n for n in (1, 2)],
    "zstd frames": [len(zstd.compress(noise(300))) * n for n in (1, 2)],
    "zstd frames to skip": [
        len(SKIPPABLE),
        at := len(SKIPPABLE + zstd.compress(noise(450))),
        at + len(SKIPPABLE),
        at + 2 * len(SKIPPABLE),
    ],
}


@pytest.mark.parametrize("name", STREAMS)
async def test_a_body_cut_anywhere_is_decoded_whole_or_fails_for_the_client_and_the_archive(
    name: str,
) -> None:
    header = name.removeprefix("raw ").split(" ")[0] if "," not in name else name
    whole = await decode(STREAMS[name], header)
    assert isinstance(whole, bytes)
    assert len(whole) >= 900
    for cut in range(len(STREAMS[name])):
        wire = STREAMS[name][:cut]
        fetched = await decode(wire, header)
        try:
            read: bytes | None = decode_archived(wire, header, None)
        except Rejected:
            read = None
        if cut == 0 or cut in ENDS.get(name, []):
            assert fetched == read == whole[: len(read or b"")]
        else:
            assert isinstance(fetched, Failure), cut
            assert fetched.failure_class in (FailureClass.TRUNCATED, FailureClass.DECODE)
            assert read is None
