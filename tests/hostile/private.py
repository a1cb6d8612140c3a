"""A crawl that has no leave to visit private addresses, sent to them by every spelling."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.e2e.command import shoal
from tests.hostile.crawling import read_ends

SPELLINGS = (
    "127.0.0.1",
    "localhost",
    "x.localhost",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.0.0.1.",
    "[::1]",
    "[::ffff:7f00:1]",
    "0.0.0.0",
    "①②⑦.0.0.1",
)


@contextmanager
def canary() -> Iterator[tuple[int, list[object]]]:
    """Listen on both loopback addresses, and note who comes."""
    visits: list[object] = []
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, address = listener.accept()
                    client.close()
                    visits.append(address)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], visits
        listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        thread.join()


def contacted(folder: Path) -> list[str]:
    """Crawl the canary by every spelling of its address; say what went wrong."""
    with canary() as (port, visits):
        urls = [f"http://{host}:{port}/{number}" for number, host in enumerate(SPELLINGS)]
        shoal("crawl", *urls, "--store", "store", "--quiet", cwd=folder)
    found = [f"private addresses: {address} was contacted" for address in visits]
    states = [ended.state for ended in read_ends(folder / "store")[1].values()]
    if states != ["dead refused"] * len(SPELLINGS):
        found.append(f"private addresses: {states}")
    return found
