"""One answer, taken in piece by piece."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fetch.http.exchange import Exchange
from shoal.model.failure import FailureClass
from shoal.model.limits import FetchLimits

LIMITS = FetchLimits(first_byte=20, idle=15, total=60, slow_after=10, slow_rate=512)
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: 1\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


def begun(limits: FetchLimits = LIMITS, *, at: float = 100.0, head: bool = False) -> Exchange:
    exchange = Exchange()
    exchange.begin(limits, started_at=at, head=head)
    return exchange


@given(st.sampled_from([PAGE, CHUNKED, INTERIM + PAGE, INTERIM * 3 + CHUNKED]), st.data())
def test_how_an_answer_is_cut_into_pieces_makes_no_difference(answer: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(answer) - 1), max_size=8)))
    pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    exchange = begun()
    for piece in pieces[:-1]:
        assert not exchange.feed(piece)
    assert exchange.feed(pieces[-1])
    assert (exchange.complete, exchange.failure, exchange.reusable) == (True, None, True)
    assert (exchange.status, exchange.body) == (200, b"hello")
    assert "link" not in dict(exchange.headers)


def test_an_exchange_can_be_begun_again() -> None:
    exchange = begun()
    exchange.feed(PAGE)
    exchange.begin(LIMITS, started_at=200.0)
    assert exchange.feed(PAGE.replace(b"hello", b"world"))
    assert exchange.body == b"world"
    assert exchange.headers == [("content-length", "5"), ("x-a", "b")]


def test_a_forgotten_answer_takes_no_memory() -> None:
    exchange = begun()
    exchange.feed(PAGE)
    exchange.forget()
    assert (exchange.body, exchange.headers) == (b"", [])


@pytest.mark.parametrize("surplus", [b"x", PAGE, b"HTTP/1.1"])
def test_data_after_a_response_closes_the_connection_and_keeps_the_response(surplus: bytes) -> None:
    exchange = begun()
    assert exchange.feed(PAGE + surplus)
    assert (exchange.failure, exchange.reusable, exchange.body) == (None, False, b"hello")


@pytest.mark.parametrize("limit", [50, 200])
def test_headers_are_counted_up_to_the_byte(limit: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: "
    filler = b"y" * (limit - len(head) - 4)
    for extra, fits in ((b"", True), (b"y", False)):
        exchange = begun(replace(LIMITS, header_bytes=limit))
        exchange.feed(head + filler + extra + b"\r\n\r\n")
        assert exchange.complete is fits
    assert exchange.failure is not None
    assert exchange.failure.failure_class is FailureClass.TOO_LARGE


def test_header_lines_are_counted() -> None:
    lines = b"".join(b"X-%d: y\r\n" % n for n in range(10))
    exchange = begun(replace(LIMITS, header_lines=10))
    assert exchange.feed(b"HTTP/1.1 204 X\r\n" + lines + b"\r\n")
    assert exchange.failure is None
    exchange = begun(replace(LIMITS, header_lines=9))
    exchange.feed(b"HTTP/1.1 204 X\r\n" + lines + b"\r\n")
    assert exchange.failure is not None
    assert exchange.failure.failure_class is FailureClass.TOO_LARGE


def test_interim_answers_share_the_header_limit() -> None:
    exchange = begun(replace(LIMITS, header_bytes=1000))
    for _ in range(100):
        if exchange.feed(INTERIM):
            break
    assert exchange.failure is not None
    assert exchange.failure.failure_class is FailureClass.TOO_LARGE


def test_a_body_is_counted_up_to_the_byte() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    for size, fits in ((100, True), (101, False)):
        exchange = begun(replace(LIMITS, wire_bytes=100))
        exchange.feed(head + b"x" * 60)
        assert exchange.feed(b"x" * (size - 60)) is not fits


@pytest.mark.parametrize(
    ("before", "reset", "kind"),
    [
        (b"", False, FailureClass.CONNECT),
        (b"", True, FailureClass.CONNECT),
        (PAGE[:10], False, FailureClass.TRUNCATED),
        (PAGE[:-1], False, FailureClass.TRUNCATED),
        (PAGE[:-1], True, FailureClass.TRUNCATED),
        (CHUNKED[:-1], False, FailureClass.TRUNCATED),
        (b"HTTP/1.1 200 OK\r\n\r\nhalf", True, FailureClass.TRUNCATED),
    ],
)
def test_an_early_end_is_named_after_what_was_there(before: bytes, reset: bool, kind: FailureClass) -> None:
    exchange = begun()
    if before:
        exchange.feed(before)
    exchange.end(reset=reset)
    assert exchange.failure is not None
    assert exchange.failure.failure_class is kind


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    exchange = begun()
    exchange.feed(b"HTTP/1.1 200 OK\r\n\r\nall")
    exchange.end(reset=False)
    assert (exchange.complete, exchange.reusable, exchange.until_close) == (True, False, True)


def test_a_head_request_needs_no_body() -> None:
    exchange = begun(head=True)
    assert exchange.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
    assert (exchange.complete, exchange.failure, exchange.reusable) == (True, None, False)


@pytest.mark.parametrize("cost", [b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK\r\nConnection: close"])
def test_a_connection_is_kept_only_if_the_server_keeps_it(cost: bytes) -> None:
    exchange = begun()
    assert exchange.feed(cost + b"\r\nContent-Length: 0\r\n\r\n")
    assert not exchange.reusable


class TestTimes:
    def test_the_first_byte_has_its_time(self) -> None:
        exchange = begun()
        assert not exchange.overdue(119)
        assert exchange.overdue(121)
        assert exchange.failure is not None
        assert (exchange.failure.failure_class, exchange.failure.reason[:10]) == (
            FailureClass.TIMEOUT,
            "first byte",
        )

    def test_the_idle_time_restarts_with_every_byte(self) -> None:
        exchange = self.reading()
        exchange.feed(b"x" * 100_000)
        assert not exchange.overdue(101)
        assert not exchange.overdue(115)
        exchange.feed(b"x")
        assert not exchange.overdue(116)
        assert not exchange.overdue(130)
        assert exchange.overdue(132)
        assert exchange.failure is not None
        assert exchange.failure.reason.startswith("idle")

    def test_a_trickle_is_too_slow_after_its_grace(self) -> None:
        exchange = self.reading()
        exchange.feed(b"x" * 3000)
        assert not exchange.overdue(109)
        exchange.feed(b"x")
        assert exchange.overdue(111)
        assert exchange.failure is not None
        assert exchange.failure.reason.startswith("slow")

    def test_everything_together_has_its_time(self) -> None:
        exchange = self.reading()
        for now in range(101, 160):
            exchange.feed(b"x" * 1000)
            assert not exchange.overdue(now)
        assert exchange.overdue(161)
        assert exchange.failure is not None
        assert exchange.failure.reason.startswith("total")

    def test_a_pause_of_ours_does_not_count_towards_the_limits(self) -> None:
        exchange = self.reading()
        exchange.excuse(1100, 1000)
        assert not exchange.overdue(1105)
        exchange.feed(b"x" * 10_000)
        assert not exchange.overdue(1119)

    @staticmethod
    def reading() -> Exchange:
        exchange = begun()
        exchange.first_byte_at = 100.0
        exchange.feed(b"HTTP/1.1 200 OK\r\n\r\n")
        return exchange
