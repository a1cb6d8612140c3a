"""Log lines that people read and grep finds: time (UTC), level, event, then key=value."""

import logging
import sys
import time
from collections.abc import Callable

from shoal.cli.views.format import quote_value
from shoal.model.printable import printable, printable_block

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormatter(logging.Formatter):
    """Writes `2026-01-02T03:04:05Z warning host.paused host=a.test reason="too many blocks"`."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        fields = [
            f"{name}={quote_value(value)}" for name, value in vars(record).items() if name not in _STANDARD
        ]
        message = record.getMessage()
        line = " ".join([when, record.levelname.lower(), printable(message), *fields])
        if not record.exc_info:
            return line
        return f"{line}\n{printable_block(self.formatException(record.exc_info))}"


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]
    """Looks up standard error for each line, because a live display replaces it."""

    def __init__(self, lost: Callable[[], None]) -> None:
        logging.Handler.__init__(self)
        self._lost = lost

    @property
    def stream(self) -> object:
        return sys.stderr

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        """Call `lost`: a full disk or a closed pipe must not end the crawl here; the command decides."""
        self._lost()


def start_logging(*, verbose: int = 0, quiet: bool = False, lost: Callable[[], None] = lambda: None) -> None:
    """Log warnings to standard error, progress unless `quiet`, events with -v and everything with -vv.

    Calls `lost` for each line that cannot be written.
    """
    root = logging.getLogger()
    root.handlers[:] = [_StandardError(lost)]
    root.handlers[0].setFormatter(LogFormatter())
    root.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])
    logging.getLogger("shoal.progress").setLevel(logging.WARNING if quiet else logging.INFO)
