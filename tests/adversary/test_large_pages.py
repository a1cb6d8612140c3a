"""Pages that are larger than any site needs: they bring what fits the limits, and the limits are named."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.adversary.size import sized
from tests.e2e.command import QUICK, records, shoal
from tests.servers.redis import valkey
from tests.site.long_links import Shape
from tests.site.server import serving
from tests.unit.parse.tasks import task

from shoal.model.failure import FailureClass
from shoal.model.limits import MIB, ParseLimits
from shoal.model.page import ParseResult
from shoal.model.scope import Scope
from shoal.parse.pool import ParsePool, Poisoned
from shoal.parse.verdict import PoisonCause
from shoal.spider.source import PlainSpider, SpiderFile

MEMORY = sized(128 * MIB, full=512 * MIB)
TIMES = sized(2, full=8)  # the pages grow with the memory
LONG_LINKS = sized(2_000, full=7_500)
HEAD = b"<html><title>found</title><body>"


def tags() -> bytes:
    return HEAD + b"<b>x</b>" * (300_000 * TIMES)


def unclosed() -> bytes:
    return HEAD + b"<p>" * (600_000 * TIMES)


def links() -> bytes:
    return HEAD + b"".join(b'<a href="/p%d">x</a>' % number for number in range(150_000 * TIMES))


@pytest.mark.parametrize(("page", "found"), [(tags, 0), (unclosed, 0), (links, 10_000)])
async def test_a_page_with_too_many_tags_is_read_from_its_beginning(
    page: Callable[[], bytes], found: int
) -> None:
    [answer] = await parse(PlainSpider("plain", (), {"title": "title"}), page())

    assert isinstance(answer, ParseResult)
    assert answer.fault is None
    assert [item.json for item in answer.items] == [b'{"url":"http://a.test/0","title":"found"}']
    assert len(answer.requests) == found
    assert "parse.memory_bytes" in answer.partial


async def test_a_handler_that_runs_out_of_memory_is_told_from_one_that_raises(tmp_path: Path) -> None:
    spider = tmp_path / "greedy.py"
    spider.write_text(
        "import shoal\nspider = shoal.Spider('greedy')\n@spider.page()\n"
        "def page(page):\n    yield {'all': [page.text * 2 for _ in range(10_000)]}\n"
    )
    [answer] = await parse(SpiderFile(str(spider)), HEAD + b"x" * MIB)

    assert isinstance(answer, Poisoned)
    assert answer.cause is PoisonCause.OOM
    assert "parse.memory_bytes" in answer.reason


async def test_the_links_of_a_page_have_a_budget_of_bytes() -> None:
    body = HEAD + b"".join(b'<a href="/%d%s">x</a>' % (number, b"y" * 4000) for number in range(LONG_LINKS))
    answer, other = await parse(PlainSpider("plain", ()), body, body.replace(b"y", b"z"))

    for result in (answer, other):
        assert isinstance(result, ParseResult)
        assert len(result.requests) > 1_000
        sizes = [*map(len, result.requests)]
        assert sum(sizes[:-1]) < Scope().limits.bytes_per_page <= sum(sizes)
        assert result.dropped == {FailureClass.TRAP: LONG_LINKS - len(result.requests)}


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_pages_with_very_long_links_are_crawled_to_the_end(kind: str, tmp_path: Path) -> None:
    pages = sized(4, full=16)
    count = sized(1_500, full=7_500)
    shape = msgspec.json.encode(Shape(pages, count, 4_000)).decode()
    async with valkey(tmp_path) as server, serving("tests.site.long_links:build", shape, hosts=1) as site:
        dsn = server.dsn if kind == "fleet" else str(tmp_path / "store")
        start = f"http://{site.authorities[0]}/"
        out = ("--depth", "2", "--max-pages", str(pages + 1), "--out", "items.jsonl", "--json", "--quiet")
        ran = shoal("crawl", start, "--crawl", "c", "--store", dsn, *QUICK, *out, cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert ran.json["counts"]["dead"] == 0
    per_page = min(count, 1 + Scope().limits.bytes_per_page // 4_050)
    assert sum(ran.json["counts"].values()) >= pages * (per_page - 50)
    found = {record["url"].removeprefix(start) for record in records(tmp_path / "items.jsonl")}
    assert {"", *(f"page/{page}" for page in range(pages))} == found


async def parse(source: PlainSpider | SpiderFile, *bodies: bytes) -> list[ParseResult | Poisoned]:
    limits = ParseLimits(memory_bytes=MEMORY, cpu=60, wall=90)
    answers: dict[int, ParseResult | Poisoned] = {}
    async with ParsePool.open(source, procs=1, limits=limits) as pool:
        for number, body in enumerate(bodies):
            pool.submit(
                task(number, str(number), body), lambda answer: answers.__setitem__(answer.id, answer)
            )
        await pool.drain()
    return [answers[number] for number in range(len(bodies))]
