"""Keep the shop open for a spider that the user writes."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.signals import STOP_SIGNALS
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.model.errors import Misconfigured

PORT = 8000  # the same each time, so that a spider that was written for the shop finds it again
COMMAND = "shoal crawl shop.py --allow-private --rate 20"

SPIDER = """\
import shoal

spider = shoal.Spider("shop", "{address}", key="sku")


@spider.page(r"/product/")
def product(page):
    yield {{
        "sku": page.css("[data-sku]::attr(data-sku)").get(),
        "title": page.css("h1::text").get(),
        "price": page.css(".price::text").re_first(r"[\\d.]+"),
    }}


@spider.page()  # all other pages
def listing(page):
    yield page.links("a.category, a.next")
    yield page.links("a.product")
"""


def serve_shop(port: int | None, *, quiet: bool, json: bool) -> ExitCode:
    """Serve the shop until a signal, and print its address and a spider that runs on it as pasted."""
    with stop_signals_blocked(), ExitStack() as stack:
        address = _open(stack, port)
        if json:
            print_json({"url": address, "spider": SPIDER.format(address=address), "command": COMMAND})
        elif not quiet:
            print_lines(instructions(address), whole=True)
        signal.sigwait(STOP_SIGNALS)
    if not json and not quiet:
        print_message("the shop is closed")
    return ExitCode.FINISHED


def instructions(address: str) -> Iterator[str]:
    """Yield where the shop is, and lines to paste into a shell that crawl it."""
    yield f"A shop of a few hundred pages is open at {address} until Ctrl-C."
    yield "Paste this into another terminal, then make shop.py yours:"
    yield ""
    yield "cat > shop.py <<'END'"
    yield from SPIDER.format(address=address).splitlines()
    yield "END"
    yield COMMAND


def _open(stack: ExitStack, port: int | None) -> str:
    """Serve on `port`; without one, on the usual port or a free one. Return the address."""
    try:
        return stack.enter_context(open_shop(Shop(), port=PORT if port is None else port))
    except OSError as error:
        if port is not None:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise Misconfigured(f"--port {port}: {why.lower()}; --port 0 takes any free port") from None
    return stack.enter_context(open_shop(Shop()))


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Hold back the signals that stop a command while the block runs: `sigwait` takes them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
