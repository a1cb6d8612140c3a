"""Standard output and standard error of a command: what is written there cannot control a terminal.

`safe_streams` is entered once, around a whole command, so that no place that prints can forget it: `print`,
log lines, tracebacks and the libraries that we use all write through it. Only a console of ours
(`open_console`) and the help pages of the command, which are text of this program, write escape
sequences.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from shoal.model.printable import printable, printable_block

if TYPE_CHECKING:
    from rich.console import Console


class SafeStream:
    """A text stream that writes nothing but printable characters and newlines."""

    def __init__(self, stream: TextIO) -> None:
        self.unsafe = stream
        self.trusted = False  # while it is set, text passes as it is

    def write(self, text: str) -> int:
        self.unsafe.write(text if self.trusted else printable_block(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unsafe, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Replace standard output and standard error while the block runs."""
    before = sys.stdout, sys.stderr
    replaced = [
        stream if stream is None or isinstance(stream, SafeStream) else SafeStream(stream)
        for stream in before
    ]
    for stream in before:
        with suppress(AttributeError, ValueError, OSError):  # a stream of a test, or a closed one
            # A locale without a character must not end a command: the character is escaped.
            cast(Any, stream).reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in replaced)
    try:
        yield
    finally:
        sys.stderr = before[1]
        if sys.stdout is not None:  # None: it could not be written, see `print_lines`
            sys.stdout = before[0]


@contextmanager
def own_text() -> Iterator[None]:
    """Write text of this program unchanged while the block runs: the colours of a help page."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, SafeStream)]
    for stream in streams:
        stream.trusted = True
    try:
        yield
    finally:
        for stream in streams:
            stream.trusted = False


_DRAWN = str.maketrans("━─…▁▂▃▄▅▆▇█", "=-~_.:-=+*#")  # one character for one, so that columns stay


_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # PEP 538: what Python sets LC_CTYPE to


def drawing_encoding(stream: object, environ: Mapping[str, str]) -> str:
    """Return the encoding of a terminal: that of the stream, unless the locale has less.

    Python writes UTF-8 even where the locale is C, and sets LC_CTYPE to that, so the other variables decide.
    """
    character_type = environ.get("LC_CTYPE", "")
    if character_type in _COERCED:
        character_type = ""
    locale = environ.get("LC_ALL") or character_type or environ.get("LANG") or "C"
    encoding = getattr(stream, "encoding", None) or "ascii"
    if "utf" in encoding.lower() and "utf" not in locale.lower():
        return "latin-1" if "8859" in locale or "latin" in locale.lower() else "ascii"
    return encoding


def drawable(text: str, encoding: str) -> str:
    """Return text with characters that the encoding has, as many as before."""
    if text.isascii() or "utf" in encoding.lower():
        return text
    try:
        return text.translate(_DRAWN).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text.translate(_DRAWN).encode("ascii", "replace").decode()


def open_console(*, stderr: bool = False) -> "Console":
    """Return a console for a screen. It writes its own escape sequences, and text only in printable form."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    stream = sys.stderr if stderr else sys.stdout
    file = getattr(stream, "unsafe", stream)
    encoding = drawing_encoding(file, os.environ)

    class SafeConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                if segment.control or segment.text == "\n":
                    yield segment
                else:
                    text = drawable(printable(segment.text, keep="\n"), encoding)
                    yield Segment(text, segment.style)

    return SafeConsole(file=file, highlight=False)
