"""Start URLs into a frontier, piece by piece."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from shoal.engine.plan import Stop
from shoal.engine.seeding import add_listed
from shoal.frontier import Added
from shoal.model.errors import Interrupted, Unavailable
from shoal.model.request import Link


class Known:
    """A frontier that remembers what it has seen, and nothing else."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        new = {link.fingerprint for link in links} - self.seen
        self.seen |= new
        return Added(len(new), len(links) - len(new))


class Listed:
    """Pieces of a list; an empty one is a writer who has fallen silent."""

    def __init__(self, *pieces: Sequence[str]) -> None:
        self.first = ""
        self.new = self.known = self.bad = 0
        self.silent = asyncio.Event()
        self._pieces = pieces

    async def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        for piece in self._pieces:
            if not piece:
                self.silent.set()
                await asyncio.Event().wait()
            yield piece


async def test_what_is_new_and_what_is_known_is_counted_and_origins_are_gathered() -> None:
    frontier = Known()
    listed = Listed(["https://a.test/1", "https://a.test/2"], ["http://b.test:81/", "https://a.test/1"])

    origins = await add_listed(frontier, "crawl", listed, Stop(), fingerprint_key=b"", gather=True)

    assert origins == {"https://a.test", "http://b.test:81"}
    assert (listed.new, listed.known) == (3, 1)
    again = Listed(["https://a.test/1", "https://a.test/2", "http://b.test:81/"])
    assert await add_listed(frontier, "crawl", again, Stop(), fingerprint_key=b"", gather=False) == set()
    assert (again.new, again.known) == (0, 3)


async def test_a_request_to_stop_does_not_wait_for_a_silent_writer() -> None:
    frontier, stop = Known(), Stop()
    listed = Listed(["https://a.test/1"], [], ["https://a.test/2"])

    async with asyncio.TaskGroup() as group:
        adding = group.create_task(_interrupted(frontier, listed, stop))
        await listed.silent.wait()
        stop.ask()

    assert "that were added (1) are kept" in adding.result()
    assert len(frontier.seen) == 1


async def _interrupted(frontier: Known, listed: Listed, stop: Stop) -> str:
    with pytest.raises(Interrupted) as caught:
        await add_listed(frontier, "crawl", listed, stop, fingerprint_key=b"", gather=True)
    return str(caught.value)


class Leaving(Known):
    """Becomes unavailable after the first piece."""

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        if self.seen:
            raise Unavailable("no response")
        return await super().add(crawl, links)


async def test_an_unavailable_store_keeps_the_seeds_that_it_has() -> None:
    listed = Listed(["https://a.test/1"], ["https://a.test/2"])

    with pytest.raises(Unavailable, match=r"no response; the start URLs that were added \(1\) are kept"):
        await add_listed(Leaving(), "crawl", listed, Stop(), fingerprint_key=b"", gather=True)


CHILD = """
import asyncio, resource, sys
from shoal.cli.input.seeds import SeedFile
from shoal.frontier import Added
from shoal.engine.plan import Stop
from shoal.engine.seeding import add_listed

class Frontier:
    async def add(self, crawl, links):
        return Added(len(links), 0)

listed = SeedFile(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
asyncio.run(add_listed(Frontier(), "crawl", listed, Stop(), fingerprint_key=b"", gather=False))
print(listed.new, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_list(tmp_path: Path) -> None:
    lines, length, most = 200_000, 400, 24 << 10  # KiB; the list alone is 76 MiB
    path = tmp_path / "urls.txt"
    with path.open("w") as file:
        file.writelines(f"https://{number:06}.test/{number:0{length - 21}}\n" for number in range(lines))

    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    ).stdout.split()

    assert int(ran[0]) == lines
    assert path.stat().st_size > lines * length - 1
    assert int(ran[1]) < most
