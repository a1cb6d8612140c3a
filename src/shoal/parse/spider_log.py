"""What a spider logs with `logging`, as lines on its standard error that carry level and logger.

A child writes such a line with one call, so that lines of several children do not mix. User code can write
the same by itself: it gains nothing, because it can log at any level anyway.
"""

import logging
import sys
from typing import NamedTuple

MARK, SEPARATOR = "\x1e", "\x1f"  # record and unit separator of ASCII
MAX_NAME_CHARS = 100
MAX_TEXT_CHARS = 3_000  # 4096 bytes are written to a pipe in one piece
_BREAK = "\x1d"  # instead of a newline


class SpiderLogRecord(NamedTuple):
    """A line that a spider logged."""

    level: int
    logger: str
    text: str  # may have several lines


class SpiderLogHandler(logging.Handler):
    """Writes records to standard error for the parent process."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # arguments that do not fit their message: a mistake of the spider
            text = str(record.msg)
        sys.stderr.write(encode_line(SpiderLogRecord(record.levelno, record.name, text)))
        sys.stderr.flush()


def install(level: int) -> None:
    """Send what user code logs, from `level` on, to the parent process. Call it before user code runs."""
    root = logging.getLogger()
    root.handlers[:] = [SpiderLogHandler()]
    root.setLevel(level)


def encode_line(record: SpiderLogRecord) -> str:
    """Return the line for a record."""
    name = record.logger[:MAX_NAME_CHARS].replace("\n", " ").replace(SEPARATOR, " ")
    text = record.text
    while len(text.encode("utf-8", "replace")) > MAX_TEXT_CHARS:
        text = f"{text[: len(text) * 3 // 4]}..."
    return f"{MARK}{record.level}{SEPARATOR}{name}{SEPARATOR}{text.replace(chr(10), _BREAK)}\n"


def decode_line(line: str) -> SpiderLogRecord | None:
    """Return the record in a line; None: the line was printed."""
    if not line.startswith(MARK):
        return None
    level, _, rest = line[1:].partition(SEPARATOR)
    name, separator, text = rest.partition(SEPARATOR)
    if not separator or not (level.isascii() and level.isdigit() and len(level) <= 3):
        return None
    return SpiderLogRecord(int(level), name, text.replace(_BREAK, "\n"))
