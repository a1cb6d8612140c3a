"""Results on standard output, messages as one line each on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from shoal.cli.views.wrap import window_width, wrap
from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.printable import printable

MAX_MESSAGE_CHARS = 8_000


class ClosedPipe(ShoalError):
    """The reader of standard output closed it."""


def print_lines(lines: Iterable[str], stream: TextIO | None = None, *, whole: bool = False) -> None:
    """Write the lines of a result. None of them can become two, whatever text it shows.

    On a terminal, they are wrapped between words, unless they have to stay `whole`: data, code to paste.
    """
    width = 0 if whole else window_width(stream or sys.stdout)
    _write("\n".join(part for line in lines for part in wrap(line, width)), stream)


def print_line(text: str, stream: TextIO | None = None) -> None:
    """Write a result of one line."""
    print_lines([text], stream)


def print_json(value: object, stream: TextIO | None = None) -> None:
    """Write a result as JSON."""
    _write(json_text(value), stream)


def print_json_lines(values: Iterable[object]) -> None:
    """Write results as JSON, one per line."""
    for value in values:
        print_json(value)


def separated(blocks: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of blocks, with an empty line between two of them."""
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield from block


def _write(text: str, stream: TextIO | None) -> None:
    """Write to `stream`, or standard output; raise if any of it cannot be written."""
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        # Buffered text cannot be written either: without this the interpreter would report it again at exit.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            raise ClosedPipe("the reader of the output closed the pipe") from None
        raise Misconfigured(f"cannot write the result: {error.strerror}") from None


def json_text(value: object) -> str:
    """Encode as one line of ASCII, the same bytes in every locale."""
    return json.dumps(value)


def one_line(text: str) -> str:
    """Return a message on one line, in printable form and not too long to be read."""
    return printable(" ".join(text[: 4 * MAX_MESSAGE_CHARS].split()), limit=MAX_MESSAGE_CHARS)


def print_message(text: str) -> None:
    """Write a message to standard error, on one line unless that is a terminal; ignore that it is closed."""
    try:
        lines = wrap(f"shoal: {one_line(text)}", window_width(sys.stderr))
        print("\n".join(lines), file=sys.stderr, flush=True)
    except OSError:
        return
