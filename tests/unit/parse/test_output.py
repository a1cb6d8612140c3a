import logging
import os
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from shoal.parse.output import CHUNK_BYTES, MAX_LINE_CHARS, MAX_LINES, CapturedOutput, printable
from shoal.parse.spider_log import SpiderLogRecord, decode_line, encode_line


def test_a_line_cannot_steer_the_terminal_or_fill_it() -> None:
    assert printable("\x1b[2Jgone\r\tcafé \x9b") == "\ufffd[2Jgone\ufffd\tcafé \ufffd"
    assert len(printable("x" * 10 * MAX_LINE_CHARS)) == MAX_LINE_CHARS


class Loop:
    """The part of an event loop that `CapturedOutput` uses, turned by hand."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.later: list[Callable[[], None]] = []

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def call_later(self, _delay: float, callback: Callable[..., None], *args: object) -> "Loop":
        self.later.append(lambda: callback(*args))
        return self

    def cancel(self) -> None:
        self.later.clear()

    def turn(self) -> None:
        """Run the delayed calls, then the readers."""
        later, self.later = self.later, []
        for resume in later:
            resume()
        for read in list(self.readers.values()):
            read()


class Pipe:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.loop = Loop()
        ours, self.theirs = os.pipe()
        self.output = CapturedOutput(cast("object", self.loop), ours)  # type: ignore[arg-type]

    def lines(self) -> list[str]:
        return [vars(record)["line"] for record in self._caplog.records]


@pytest.fixture
def pipe(caplog: pytest.LogCaptureFixture) -> Iterator[Pipe]:
    caplog.set_level(logging.INFO, "shoal.spider")
    pipe = Pipe(caplog)
    yield pipe
    os.close(pipe.theirs)


def test_what_a_spider_prints_is_logged_line_by_line(pipe: Pipe) -> None:
    os.write(pipe.theirs, b"one\n\ntwo\nthr")
    pipe.loop.turn()
    assert pipe.lines() == ["one", "two"]

    os.write(pipe.theirs, b"ee\nfour")
    pipe.output.close()
    assert pipe.lines() == ["one", "two", "three", "four"]


def test_a_flood_waits_in_the_pipe(pipe: Pipe) -> None:
    os.write(pipe.theirs, b"x" * (CHUNK_BYTES - 1) + b"\n" + b"more\n")
    pipe.loop.turn()
    assert pipe.lines() == ["x" * MAX_LINE_CHARS]
    assert not pipe.loop.readers, "nothing is read before some time has passed"

    pipe.loop.turn()
    assert pipe.lines()[1:] == ["more"]
    pipe.output.close()


def test_of_many_short_lines_only_some_are_shown_and_the_rest_counted(pipe: Pipe) -> None:
    os.write(pipe.theirs, b"y\n" * (MAX_LINES + 700))
    pipe.loop.turn()

    assert pipe.lines() == ["y"] * MAX_LINES + ["(700 more lines)"]
    pipe.output.close()


def test_a_line_without_an_end_is_not_buffered_without_limit(pipe: Pipe) -> None:
    os.write(pipe.theirs, b"x" * CHUNK_BYTES)
    pipe.loop.turn()
    os.write(pipe.theirs, b"y")
    pipe.loop.turn()

    assert pipe.lines() == ["x" * MAX_LINE_CHARS]
    pipe.output.close()


def test_what_a_spider_logs_keeps_its_level_its_logger_and_its_lines(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    text = "no price\nTraceback\n\x1b[2J"
    os.write(pipe.theirs, encode_line(SpiderLogRecord(logging.ERROR, "books.prices", text)).encode())
    os.write(pipe.theirs, encode_line(SpiderLogRecord(logging.DEBUG, "books", "hidden")).encode())
    os.write(pipe.theirs, b"\x1e99999\x1fforged\x1fprinted\n")
    pipe.output.close()

    logged, printed = caplog.records
    assert (logged.levelname, logged.message) == ("ERROR", "spider.log")
    assert vars(logged)["logger"] == "books.prices"
    assert vars(logged)["line"] == "no price\nTraceback\n\ufffd[2J"
    assert (printed.levelname, printed.message) == ("INFO", "spider.output")


def test_a_long_record_is_cut_to_what_a_pipe_takes_in_one_piece() -> None:
    line = encode_line(SpiderLogRecord(logging.INFO, "x" * 1000, "é" * 9000))
    assert len(line.encode()) < 4096
    assert decode_line(line.rstrip("\n")) is not None
