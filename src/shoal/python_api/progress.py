"""The progress of a crawl: in a notebook, one line that changes; elsewhere, lines of text.

The calling thread shows it, because the output of another thread may end up below another cell.
"""

import sys
import time
from typing import Any, Protocol

from shoal.model.format import duration, plural
from shoal.model.printable import printable
from shoal.services.crawl import Snapshot

SHOW_EVERY_S = 0.25
PRINT_EVERY_S = 2.0


class ProgressView(Protocol):
    def show(self, snapshot: Snapshot | None) -> None: ...
    def close(self, text: str) -> None: ...


def open_progress(progress: bool | None) -> ProgressView:
    """Return where progress is shown; None: in notebooks only."""
    handle = _notebook_display() if progress is not False else None
    if handle is not None:
        return NotebookProgress(handle)
    return TextProgress() if progress else NoProgress()


def progress_line(snapshot: Snapshot) -> str:
    left = sum(snapshot.counts.get(state, 0) for state in ("waiting", "delayed", "leased", "parsing"))
    rest = f", about {duration(snapshot.eta)} left" if snapshot.eta is not None else ""
    return printable(
        f"{snapshot.crawl}: {plural(snapshot.pages, 'page')}, {plural(snapshot.items, 'item')},"
        f" {left:,} waiting, {snapshot.rate:,.1f} pages/s, {duration(snapshot.elapsed)}{rest}"
    )


class NoProgress:
    def show(self, snapshot: Snapshot | None) -> None:
        pass

    def close(self, text: str) -> None:
        pass


class NotebookProgress:
    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._shown_at = 0.0

    def show(self, snapshot: Snapshot | None) -> None:
        now = time.monotonic()
        if snapshot is not None and now - self._shown_at >= SHOW_EVERY_S:
            self._shown_at = now
            self._update(progress_line(snapshot))

    def close(self, text: str) -> None:
        self._update(printable(text))

    def _update(self, text: str) -> None:
        self._handle.update({"text/plain": text}, raw=True)


class TextProgress:
    def __init__(self) -> None:
        self._shown_at = 0.0

    def show(self, snapshot: Snapshot | None) -> None:
        now = time.monotonic()
        if snapshot is not None and now - self._shown_at >= PRINT_EVERY_S:
            self._shown_at = now
            self.close(progress_line(snapshot))

    def close(self, text: str) -> None:
        print(printable(text), file=sys.stderr)


def _notebook_display() -> Any:
    """Return a display that can be updated if this process is the kernel of a notebook; None: it is not."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display({"text/plain": "starting"}, raw=True, display_id=True)
