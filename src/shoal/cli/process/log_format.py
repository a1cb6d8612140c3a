"""Log lines for people and for grep: time (UTC), level, event, then key=value."""

import json
import logging
import re
import sys
import time
from collections.abc import Callable

_BARE = re.compile(r'[^\s"=]+')
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormatter(logging.Formatter):
    """Writes `2026-01-02T03:04:05Z warning host.paused host=a.test reason="too many blocks"`."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        facts = [f"{name}={shown(value)}" for name, value in vars(record).items() if name not in _STANDARD]
        line = " ".join([when, record.levelname.lower(), record.getMessage(), *facts])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def shown(value: object) -> str:
    """Write a value so that no byte of it can end the line, start a new field or steer a terminal."""
    text = str(value)
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]
    """Looks standard error up for each line, because a live display puts itself in between."""

    def __init__(self, lost: Callable[[], None]) -> None:
        logging.Handler.__init__(self)
        self._lost = lost

    @property
    def stream(self) -> object:
        return sys.stderr

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        """A full disk or a reader that went away must not end the crawl half-way; whoever runs it decides."""
        self._lost()


def start_logging(*, verbose: int = 0, quiet: bool = False, lost: Callable[[], None] = lambda: None) -> None:
    """Send warnings to standard error, and progress unless `quiet`; -v tells the story, -vv everything."""
    root = logging.getLogger()
    root.handlers[:] = [_StandardError(lost)]
    root.handlers[0].setFormatter(LogFormatter())
    root.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])
    logging.getLogger("shoal.progress").setLevel(logging.WARNING if quiet else logging.INFO)
