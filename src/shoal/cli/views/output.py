"""Words to the person: results on standard output, everything else in one line on standard error."""

import json
import sys
from typing import TextIO

from shoal.model.errors import Misconfigured, ShoalError


class ClosedPipe(ShoalError):
    """Whoever read our output went away."""


def put(text: str, stream: TextIO | None = None) -> None:
    """Write a result, all of it or an error, to standard output unless told otherwise."""
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        # What is still buffered has nowhere to go: without this the interpreter would complain again at exit.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            raise ClosedPipe("whoever read the output went away") from None
        raise Misconfigured(f"cannot write the result: {error.strerror}") from None


def put_json(value: object) -> None:
    """Write a result for programs."""
    put(json_text(value))


def json_text(value: object) -> str:
    """Encode for programs: one line, ASCII only, the same bytes wherever it runs."""
    return json.dumps(value)


def tell(text: str) -> None:
    """Say one line on standard error; nobody being there to read it is no reason to fail."""
    try:
        print(f"shoal: {' '.join(text.split())}", file=sys.stderr, flush=True)
    except OSError:
        return
