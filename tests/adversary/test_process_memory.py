"""Pages that are small on the wire and large when parsed: the memory of all processes together is bounded."""

import asyncio
import gzip
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.adversary.size import FULL_SIZE, sized
from tests.e2e.command import SHOAL, surroundings
from tests.site.raw import Peer, answer, raw_server

MIB = 1 << 20
ROOM = 256 * MIB  # above what the same crawl takes of a small page

# Without limits for all processes together, the rows took 290 to 620 MiB above the base.
SPIDER = """
import time
import shoal

spider = shoal.Spider("large", start={urls!r}, same_host=True)

@spider.page()
def page(page):
    {handler}
"""


@dataclass(frozen=True)
class Row:
    page: bytes
    handler: str
    items: int
    pages: int = 1


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the pages, each of about 30 MiB, and what is made of them. In the cut: those that need most."""
    markup = Row(b"<b>x</b>" * (31 * MIB // 8), "yield {'n': len(page.css('b').getall())}", 1)
    text = Row(b"<p>" + b"word " * (6 * MIB), "yield {'t': page.css('p::text').get()}", 1)
    # Pages arrive faster than they are parsed.
    blank = Row(b"<p>" + b" " * (31 * MIB), "time.sleep(0.1); yield {'url': page.url}", 0)
    yield "a text node", text
    yield "markup", markup
    pages = sized(12, full=116)
    yield "pages at once", Row(blank.page, blank.handler, pages, pages)
    if FULL_SIZE:
        attribute = b"<p data-x='" + b"word " * (6 * MIB) + b"'>text</p>"
        links = b"".join(b'<a href="/p%d">x</a>' % number for number in range(1_000_000))
        yield "an attribute", Row(attribute, "yield {'t': page.css('p::attr(data-x)').get()}", 1)
        yield "links", Row(links, "yield from page.links()", 0)
        yield "keys", Row(b"page", "yield {str(n): n for n in range(1_000_000)}", 0)


ROWS = dict(rows())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the memory that a crawl takes of a small page."""
    small = Row(b"page", "time.sleep(0.3); yield {'url': page.url}", 1)
    return asyncio.run(peak_of(small, tmp_path_factory.mktemp("base")))


@pytest.mark.slow("pages of 31 MiB are packed, decoded and parsed")
@pytest.mark.parametrize("row", ROWS)
def test_the_memory_of_all_processes_is_bounded(row: str, base: int, tmp_path: Path) -> None:
    peak = asyncio.run(peak_of(ROWS[row], tmp_path))

    print(f"{row}: {base >> 20} MiB and {(peak - base) >> 20} MiB")
    items = (tmp_path / "shoal-data" / "items").glob("*.jsonl")
    assert sum(file.read_bytes().count(b"\n") for file in items) == ROWS[row].items
    assert peak < base + ROOM


async def peak_of(row: Row, folder: Path) -> int:
    """Crawl the pages of a row; return the most memory that all processes of the command took together."""
    page = packed(row.page)

    async def handler(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(page if b" /start" in request else answer(b"", status=404))

    async with raw_server(handler) as server:
        spider = folder / "large.py"
        urls = [server.url(f"/start{number}") for number in range(row.pages)]
        spider.write_text(SPIDER.format(urls=urls, handler=row.handler))
        limits = ("--rate", "0", "--per-host", "64", "--concurrency", "64", "--procs", "2")
        pages = ("--max-pages", str(row.pages), "--allow-private", "--quiet")
        # Not forked: what a fork shares with its parent would not count.
        command, peak = (*SHOAL, "crawl", str(spider), *pages, *limits), 0
        with subprocess.Popen(command, cwd=folder, env=surroundings()) as running:  # noqa: ASYNC220
            while running.poll() is None:
                peak = max(peak, memory_of(running.pid))
                await asyncio.sleep(0.02)
    return peak


def packed(page: bytes) -> bytes:
    """Return a response whose body is just not a bomb."""
    noise = random.Random(1).randbytes(len(page) // 170).hex().encode()
    encoded = gzip.compress(page + noise, 6)
    return answer(encoded, headers=(("Content-Type", "text/html"), ("Content-Encoding", "gzip")))


def memory_of(command: int) -> int:
    """Return the bytes of a command and its children, what they share counted once."""
    try:
        root = psutil.Process(command)
        return sum(map(proportional_bytes, (root, *root.children(recursive=True))))
    except psutil.NoSuchProcess:
        return 0


def proportional_bytes(process: psutil.Process) -> int:
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0) * 1024
