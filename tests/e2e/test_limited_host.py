"""A server that allows fewer requests than the crawl is configured for: the pace settles where it allows."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.command import PRIVATE, shoal
from tests.servers.nginx import Answered, limiting_nginx
from tests.servers.redis import valkey

LONGEST_RUN = 100.0  # seconds


@asynccontextmanager
async def store_of(kind: str, folder: Path) -> AsyncIterator[str]:
    if kind == "folder":
        yield str(folder / "data")
        return
    async with valkey(folder / "valkey") as server:
        yield server.dsn


def served_per_second(log: Sequence[Answered]) -> float:
    """Return how often a page was served, without the first seconds and the last retries."""
    served = [answer.at for answer in log if answer.status == 200]
    settled = served[len(served) * 3 // 10 : len(served) * 9 // 10]
    return (len(settled) - 1) / (settled[-1] - settled[0])


@pytest.mark.slow("80 pages at five per second")
@pytest.mark.alone("a rate is compared with that of a server to a tenth")
@pytest.mark.parametrize(
    ("store", "rate", "status", "pages"), [("folder", 5, 429, 80), ("fleet", 5, 503, 80)]
)
async def test_the_pace_settles_within_a_tenth_of_what_the_server_allows(
    tmp_path: Path, store: str, rate: int, status: int, pages: int
) -> None:
    async with (
        limiting_nginx(tmp_path / "nginx", rate=rate, status=status, burst=3) as server,
        store_of(store, tmp_path) as dsn,
    ):
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("".join(f"{server.url}/p{number}\n" for number in range(pages)))
        options = ("--rate", str(10 * rate), "--store", dsn, "--allow-private", "--json", "--out", "o.jsonl")
        crawl = await asyncio.to_thread(
            shoal, "crawl", "--seeds", str(seeds), *options, cwd=tmp_path, env=PRIVATE, timeout=LONGEST_RUN
        )
        log = server.log()

    assert (crawl.code, crawl.json["counts"]["dead"]) == (0, 0), crawl.err
    assert {answer.path for answer in log if answer.status == 200} == {
        f"/p{number}" for number in range(pages)
    }
    refused = sum(answer.status == status for answer in log)
    pace = served_per_second(log)
    print(f"{store}: {pace:.2f} pages per second of {rate} allowed; {refused} answers of {status}")
    assert 0.9 * rate <= pace <= 1.1 * rate
    assert 0 < refused < pages
    assert "host.trouble" in crawl.err or refused < 5
