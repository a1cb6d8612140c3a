"""Log lines that people read and grep finds: time (UTC), level, event, then key=value; or JSON.

On a terminal, requests (`-v`) are shown as columns, and tracebacks of a spider as lines.
"""

import logging
import sys
import time
from collections.abc import Callable

from shoal.cli.process.request_lines import REQUESTS, request_line
from shoal.cli.views.format import quote_value
from shoal.cli.views.output import json_text
from shoal.model.errors import Misconfigured
from shoal.model.printable import printable, printable_block

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
FORMATS = ("text", "json")
MAX_TRACEBACKS = 100  # different ones that a terminal shows


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))


class LogFormatter(logging.Formatter):
    """Writes `2026-01-02T03:04:05Z warning host.paused host=a.test reason="too many blocks"`."""

    def format(self, record: logging.LogRecord) -> str:
        line = self._line(record, _facts(record))
        if not record.exc_info:
            return line
        return f"{line}\n{printable_block(self.formatException(record.exc_info))}"

    def _line(self, record: logging.LogRecord, facts: dict[str, object]) -> str:
        fields = [f"{name}={quote_value(value)}" for name, value in facts.items()]
        return " ".join([_time(record), record.levelname.lower(), printable(record.getMessage()), *fields])


class TerminalFormatter(LogFormatter):
    """Writes requests in columns, and the traceback of a spider as lines below its event.

    A traceback is written once: a fault of a spider is usually the same on every page. `shoal dlq show` has
    all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: set[str] = set()

    def _line(self, record: logging.LogRecord, facts: dict[str, object]) -> str:
        if record.name == REQUESTS:
            return printable(request_line(record.getMessage(), facts))
        traceback = str(facts.pop("traceback", ""))
        line = super()._line(record, facts)
        if traceback in self._written or len(self._written) >= MAX_TRACEBACKS:
            return line
        self._written.add(traceback)
        return "\n    ".join([line, *printable_block(traceback).splitlines()]) if traceback else line


class JsonFormatter(logging.Formatter):
    """Writes one JSON object per line: time, level, event, logger, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        head = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        return json_text({**head, **{name: _json_value(value) for name, value in facts.items()}})


def _json_value(value: object) -> object:
    return value if isinstance(value, str | int | float | None) else str(value)


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


def start_logging(
    *,
    verbose: int = 0,
    quiet: bool = False,
    events: bool = False,
    log_format: str = "text",
    lost: Callable[[], None] = lambda: None,
) -> None:
    """Log warnings to standard error; progress and what a spider prints unless `quiet`.

    With -v, one line per request and events, which `events` shows without it; with -vv everything. Calls
    `lost` for each line that cannot be written.
    """
    if log_format not in FORMATS:
        raise Misconfigured(f"--log-format {log_format!r}: must be one of {', '.join(FORMATS)}")
    root = logging.getLogger()
    root.handlers[:] = [_StandardError(lost)]
    root.handlers[0].setFormatter(_formatter(log_format))
    levels = [logging.WARNING, logging.INFO, logging.DEBUG]
    level = levels[min(verbose, 2)]
    root.setLevel(min(level, logging.INFO) if events else level)
    logging.getLogger(REQUESTS).setLevel(level)
    for shown in ("shoal.progress", "shoal.spider"):
        logging.getLogger(shown).setLevel(logging.WARNING if quiet else min(level, logging.INFO))


def _formatter(log_format: str) -> logging.Formatter:
    if log_format == "json":
        return JsonFormatter()
    terminal = sys.stderr is not None and sys.stderr.isatty()
    return TerminalFormatter() if terminal else LogFormatter()
