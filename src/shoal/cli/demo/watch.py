"""The dashboard beside the demo's crawl: a server in a separate process, and a browser that opens it."""

import importlib.util
import signal
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from shoal.cli.process.signals import STOP_SIGNALS
from shoal.cli.views.output import print_line, print_message
from shoal.model.errors import Misconfigured

START = "open "  # the first line that `shoal serve` prints
STOP_S = 10.0


@contextmanager
def dashboard_of(store: str) -> Iterator[str]:
    """Serve the dashboard of a store while the block runs; yield its address, which holds a token."""
    if importlib.util.find_spec("uvicorn") is None:
        raise Misconfigured("--watch: run  pip install 'shoal[serve]'  first")
    command = [sys.executable, "-m", "shoal", "serve", "--store", store, "--listen", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as folder:
        tokens = ["--token-file", str(Path(folder, "tokens.json"))]  # none yet: one is made for this run
        process = subprocess.Popen(  # noqa: S603 (our own program)
            [*command, *tokens], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(START):
                raise Misconfigured("--watch: the dashboard does not start: shoal serve says why")
            address = line.removeprefix(START).strip()
            _open_browser(address, Path(folder))
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _open_browser(address: str, folder: Path) -> None:
    """Open an address in a browser, through a file: the token must not be in the list of processes."""
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address, quote=True)}">'
    )
    webbrowser.open(page.as_uri())


def keep_open(address: str) -> None:
    """Wait for a signal that stops the command."""
    print_line(f"The dashboard stays open until Ctrl-C: {address}")
    signal.sigwait(STOP_SIGNALS)
    print_message("the dashboard is closed")
