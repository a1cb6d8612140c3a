"""Results on standard output, messages as one line each on standard error."""

import json
import sys
from typing import TextIO

from shoal.model.errors import Misconfigured, ShoalError


class ClosedPipe(ShoalError):
    """The reader of standard output closed it."""


def print_result(text: str, stream: TextIO | None = None) -> None:
    """Write a result to `stream`, or standard output; raise if any of it cannot be written."""
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        # Buffered text cannot be written either: without this the interpreter would report it again at exit.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            raise ClosedPipe("the reader of the output closed the pipe") from None
        raise Misconfigured(f"cannot write the result: {error.strerror}") from None


def print_json(value: object) -> None:
    """Write a result as JSON."""
    print_result(json_text(value))


def json_text(value: object) -> str:
    """Encode as one line of ASCII, the same bytes in every locale."""
    return json.dumps(value)


def print_message(text: str) -> None:
    """Write one line to standard error; ignore that it is closed."""
    try:
        print(f"shoal: {' '.join(text.split())}", file=sys.stderr, flush=True)
    except OSError:
        return
