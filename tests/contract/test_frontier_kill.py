"""kill -9 at any instant: everything that was confirmed is stored, and the audit finds no problem."""

import asyncio
import random
import signal
import sys
from pathlib import Path

from shoal.frontier.sqlite import SqliteFrontier
from shoal.testing.contracts.frontier import link

KILLS = 5


async def until_killed(path: Path, seed: int, lines: int) -> list[tuple[str, int]]:
    """Run a child until it has reported `lines` lines, kill it, and return everything that it reported."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.contract.committing",
        str(path),
        str(seed),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        limit=1 << 24,
    )
    assert child.stdout is not None
    reported = [await child.stdout.readline() for _ in range(lines)]
    async with SqliteFrontier.peek(path) as reader:  # a concurrent reader sees whole transactions
        assert (await reader.audit("c")).problems == []
    child.send_signal(signal.SIGKILL)
    reported += (await child.stdout.read()).splitlines(keepends=True)
    await child.wait()
    whole = [line.split() for line in reported if line.endswith(b"\n")]
    return [(word.decode(), int(number)) for word, number in whole]


async def test_a_killed_owner_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    rng = random.Random(2026)
    seen: set[int] = set()
    done: set[int] = set()
    for kill in range(KILLS):
        for word, number in await until_killed(path, kill, rng.randrange(200, 1500)):
            if word == "done":
                assert number not in done, "settled twice"
                done.add(number)
            else:
                seen.add(number)

    async with SqliteFrontier.open(path) as frontier:
        await frontier.crawls.open("c")
        audit = await frontier.reader.audit("c")
        assert audit.problems == []
        assert (await frontier.reader.counts("c")).leased == 0
        known = [link(str(number), host=f"{number % 5}.test") for number in sorted(seen)]
        assert (await frontier.add("c", known)).new == 0
        pages = {fp async for fp, _ in frontier.reader.pages("c")}
        assert {link(str(number), host=f"{number % 5}.test").fingerprint for number in done} <= pages
