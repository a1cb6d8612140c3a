"""How a running crawl is shown: a live picture on a terminal, log lines elsewhere, or nothing."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from shoal.engine.snapshot import Snapshot

if TYPE_CHECKING:
    from shoal.cli.views.crawl_screen import Screen
    from shoal.cli.views.top_screen import TopScreen

log = logging.getLogger("shoal.progress")

REFRESH = 0.2  # seconds between two pictures, at least
LINE_EVERY = 5.0  # seconds between two log lines


class Watch(Protocol):
    """What the crawl command needs of a display. Nothing here raises if the terminal or pipe has gone away:
    `lost` is told, again and again."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def say(self, text: str) -> None: ...


class NoDisplay:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, now: Any) -> None:
        return

    def say(self, text: str) -> None:
        return


class LogLines(NoDisplay):
    """Logs progress every few seconds of the crawl's own time."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._due = LINE_EVERY
        self._lost = lost

    def show(self, snapshot: Snapshot) -> None:
        from shoal.cli.views.crawl_screen import progress_fields

        if snapshot.elapsed >= self._due:
            self._due = snapshot.elapsed + LINE_EVERY
            log.info("crawl.progress", extra=progress_fields(snapshot))

    def say(self, text: str) -> None:
        try:
            print(f"shoal: {text}", file=sys.stderr, flush=True)
        except OSError:
            self._lost()


class LiveScreen:
    """Keeps a picture of the crawl at the bottom of the terminal; what is said scrolls away above it."""

    def __init__(self, lost: Callable[[], None], screen: "Screen | TopScreen") -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False)
        self._screen = screen
        # Transient: the summary takes its place at the end.
        self._live = Live(self._screen, console=self._console, auto_refresh=False, transient=True)
        self._size = self._console.size
        self._drawn = 0.0
        self._lost = lost

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._live.stop()
        except OSError:
            self._lost()

    def show(self, now: Any) -> None:
        self._screen.show(now)
        now = time.monotonic()
        if now - self._drawn < REFRESH:
            return
        self._drawn = now
        try:
            self._fit()
            self._live.refresh()
        except OSError:
            self._lost()

    def say(self, text: str) -> None:
        try:
            self._console.print(f"shoal: {text}", markup=False, soft_wrap=True)
        except OSError:
            self._lost()

    def _fit(self) -> None:
        """Start on a clean window after a resize: the old lines have wrapped and cannot be found again."""
        if self._console.size != self._size:
            self._size = self._console.size
            self._console.clear()


def choose_watch(
    *, silent: bool, terminal: bool, environ: Mapping[str, str], lost: Callable[[], None]
) -> Watch:
    """Pick the display that the surroundings can show."""
    if silent:
        return NoDisplay()
    if terminal and can_draw(environ):
        from shoal.cli.views.crawl_screen import Screen

        return LiveScreen(lost, Screen())
    return LogLines(lost)


def can_draw(environ: Mapping[str, str]) -> bool:
    """Say whether the terminal that these variables tell of can show a picture."""
    # The picture needs a terminal that moves the cursor and a locale that has its characters. Python reports
    # UTF-8 even where the locale is C, so the variables are asked instead.
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    moves = environ.get("TERM", "") not in ("", "dumb", "unknown")
    return moves and "utf" in locale.lower()
