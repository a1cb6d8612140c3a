"""Log what the workers of a fleet have logged, as if this process had."""

import json
import logging

from shoal.cli.process.request_lines import EVENTS, REQUESTS

log = logging.getLogger("shoal.worker")

_LEVELS = logging.getLevelNamesMapping()
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"time", "level", "event"}

WORKER_LOG = ("--log-format", "json")  # flags of a worker whose lines are passed on


def relay(line: str) -> None:
    """Log a JSON line of a worker, and anything else that it wrote as `worker.output`."""
    try:
        found = json.loads(line)
        level = _LEVELS[found["level"].upper()]
        event = str(found["event"])
    except (ValueError, KeyError, TypeError, AttributeError):
        log.info("worker.output", extra={"line": line})
        return
    logger = logging.getLogger(REQUESTS) if event in EVENTS else log
    if logger.isEnabledFor(level):
        logger.log(level, event, extra={name: value for name, value in found.items() if name not in _OWN})
