"""Many pages that are small on the wire and large in memory: the memory of a crawl stays bounded."""

import asyncio
import gzip
import random
import subprocess
from pathlib import Path

import psutil
from tests.adversary.size import sized
from tests.e2e.command import SHOAL, surroundings
from tests.site.raw import Peer, answer, raw_server

MIB = 1 << 20
PAGES = sized(24, full=120)
# For 256 MiB of bodies, one that is being decoded, a message to the parse process, and the process itself.
# Without a limit, 24 pages take 650 MiB, and more take more; with it, 120 pages were measured at 695 MiB.
ROOM = sized(576, full=1000) * MIB

# Pages arrive faster than they are parsed.
SPIDER = """
import time
import shoal

spider = shoal.Spider("slow", start={urls!r})

@spider.page()
def page(page):
    time.sleep(0.25)
    yield {{"bytes": len(page.body)}}
"""


def large_page() -> bytes:
    """Return a page of 31 MiB in about 170 KB: just under the ratio of a bomb."""
    noise = random.Random(1).randbytes(120_000).hex().encode()
    body = b"<title>large</title><p>" + noise + b" " * (31 * MIB)
    packed = gzip.compress(body, 9)
    assert len(body) / 200 < len(packed) < 200_000, len(packed)
    return answer(packed, headers=(("Content-Type", "text/html"), ("Content-Encoding", "gzip")))


def memory_of(process: psutil.Process) -> int:
    """Return the bytes of the process that fetches; the parse processes have separate limits."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0) * 1024


async def test_pages_that_decode_to_31_mib_do_not_fill_the_memory(tmp_path: Path) -> None:
    page = large_page()

    async def handler(peer: Peer) -> None:
        request = await peer.request()
        if b" /robots.txt " in request:
            await peer.send(answer(b"", status=404))
        else:
            await peer.send(page)

    async with raw_server(handler) as server:
        spider = tmp_path / "slow.py"
        spider.write_text(SPIDER.format(urls=[server.url(f"/{n}") for n in range(PAGES)]))
        limits = ("--rate", "0", "--per-host", "64", "--concurrency", "64", "--procs", "1")
        # Not forked: what a fork shares with its parent would not count.
        command = (*SHOAL, "crawl", str(spider), "--allow-private", "--quiet", *limits)
        with subprocess.Popen(command, cwd=tmp_path, env=surroundings()) as running:  # noqa: ASYNC220
            process, peak = psutil.Process(running.pid), 0
            while running.poll() is None:
                try:
                    peak = max(peak, memory_of(process))
                except (OSError, psutil.NoSuchProcess):
                    break
                await asyncio.sleep(0.02)
            assert running.wait() == 0
    print(f"peak {peak >> 20} MiB")
    items = (tmp_path / "shoal-data" / "items").glob("*.jsonl")
    assert sum(len(file.read_text().splitlines()) for file in items) == PAGES
    assert peak < ROOM
