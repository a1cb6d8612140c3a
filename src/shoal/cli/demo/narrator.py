"""Prints what a crawl does while it runs: the events of the log that matter to a reader, in plain words."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HELPS = {
    "exit": "another exit",
    "impersonate": "a client that passes for a browser",
    "browser": "a browser",
}


class Narrator(logging.Handler):
    """Prints some events as sentences, with the seconds since the start; errors go to the usual log."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        self._began = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        if (text := sentence(record.getMessage(), record.__dict__)) is not None:
            self._say(f"{time.monotonic() - self._began:.1f} s: {text}")
        elif record.levelno >= logging.ERROR:
            logging.getLogger().handle(record)


def sentence(event: str, about: dict[str, object]) -> str | None:
    """Return an event in words; None: it is not told."""
    match event:
        case "level.raised":
            met = "has nothing but scripts" if about["cause"] == "empty_shell" else "answers with a challenge"
            helps = _HELPS.get(str(about["level"]), about["level"])
            return f"{about['pattern']} {met}; used from now on: {helps}"
        case "level.exhausted":
            return f"{about['pattern']} cannot be fetched at any level: {about['why']}"
        case "browser.started":
            return f"a browser has started: {about['version']}"
        case "exit.rested":
            return f"the exit {about['exit']} rests for {float(str(about['seconds'])):.0f} s: {about['why']}"
        case _:
            return None


@contextmanager
def narrated(say: Callable[[str], None]) -> Iterator[None]:
    """Print what happens while the block runs, in place of log lines; with -v, those are shown as usual."""
    log = logging.getLogger("shoal")
    if logging.getLogger().level < logging.WARNING:
        yield
        return
    handler, level, propagate = Narrator(say), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate
