"""The display of a running crawl: a live screen on a terminal, log lines elsewhere, or nothing."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from shoal.cli.views.output import one_line
from shoal.cli.views.wrap import window_width, wrap
from shoal.services.crawl import Snapshot

if TYPE_CHECKING:
    from shoal.cli.views.crawl_screen import Screen
    from shoal.cli.views.top_screen import TopScreen

log = logging.getLogger("shoal.progress")

MIN_REFRESH_S = 0.2
LOG_EVERY_S = 5.0


class Display(Protocol):
    """What the crawl command needs of a display.

    Nothing here raises if the terminal or pipe was closed; each failed write calls `lost`.
    """

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def message(self, text: str) -> None: ...


class NoDisplay:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, now: Any) -> None:
        return

    def message(self, text: str) -> None:
        return


class LogLines(NoDisplay):
    """Logs progress every few seconds of the crawl's elapsed time."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._due = LOG_EVERY_S
        self._lost = lost

    def show(self, snapshot: Snapshot) -> None:
        from shoal.cli.views.crawl_screen import progress_fields

        if snapshot.elapsed >= self._due:
            self._due = snapshot.elapsed + LOG_EVERY_S
            log.info("crawl.progress", extra=progress_fields(snapshot))

    def message(self, text: str) -> None:
        try:
            lines = wrap(f"shoal: {one_line(text)}", window_width(sys.stderr))
            print("\n".join(lines), file=sys.stderr, flush=True)
        except OSError:
            self._lost()


class LiveScreen:
    """Keeps the screen of a crawl at the bottom of the terminal; messages scroll above it."""

    def __init__(self, lost: Callable[[], None], screen: "Screen | TopScreen") -> None:
        from rich.live import Live

        from shoal.cli.views.streams import open_console

        self._console = open_console(stderr=True)
        self._screen = screen
        # Transient: the summary replaces it at the end.
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
        if now - self._drawn < MIN_REFRESH_S:
            return
        self._drawn = now
        try:
            self._fit()
            self._live.refresh()
        except OSError:
            self._lost()

    def message(self, text: str) -> None:
        try:
            for line in wrap(f"shoal: {one_line(text)}", self._console.width):
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        except OSError:
            self._lost()

    def _fit(self) -> None:
        """Clear the window after a resize: the old lines have wrapped and cannot be overwritten."""
        if self._console.size != self._size:
            self._size = self._console.size
            self._console.clear()


def choose_display(
    *,
    silent: bool,
    terminal: bool,
    environ: Mapping[str, str],
    lost: Callable[[], None],
    hint: str = "",
) -> Display:
    """Return the display that the terminal can show; `hint` names the key that stops the crawl."""
    if silent:
        return NoDisplay()
    if terminal and can_draw(environ):
        from shoal.cli.views.crawl_screen import Screen

        return LiveScreen(lost, Screen(hint))
    return LogLines(lost)


def can_draw(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal that these variables describe can show a screen."""
    # It must move the cursor. A locale without the characters of the screen gets others.
    return environ.get("TERM", "") not in ("", "dumb", "unknown")
