"""What a page costs at each level: CPU of all processes, bytes on the wire, and money.

    python -m bench.levels [--pages 30] [--price-gb 5]

Each level is set for two crawls of a local site, a short and a long one; the difference between them is what
the pages cost. The bytes are those of the fetch log; money is bytes at a price per GB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from shoal.archive.fetch_log import FetchLogReader
from shoal.archive.registry import open_segments
from shoal.cli.demo.server import open_site
from shoal.cli.demo.shop import Reply

LEVELS = {"plain": 40, "impersonate": 40, "browser": 1}  # how many times as many pages are needed to measure
SPIDER = """
import shoal

spider = shoal.Spider("pages")


@spider.page()
def page(page):
    yield {"title": page.css("h1::text").get()}
    yield page.links("a")
"""


def site(pages: int) -> "dict[str, Reply]":
    """Return a start page and pages of 12 KB with a script that renders 50 elements."""
    script = (
        "<script>for (let i = 0; i < 50; i++)"
        " document.body.append(Object.assign(document.createElement('p'), {textContent: i}))</script>"
    )
    links = "".join(f'<a href="/{number}">{number}</a>' for number in range(pages))
    made = {"/": Reply(200, f"<!doctype html><h1>start</h1>{links}")}
    for number in range(pages):
        made[f"/{number}"] = Reply(200, f"<!doctype html><h1>{number}</h1>{'<p>fish</p>' * 1000}{script}")
    return made


def crawl(level: str, pages: int) -> tuple[float, int]:
    """Crawl `pages` pages at a level; return CPU seconds of all processes, and bytes."""
    answers = site(pages)
    missing = Reply(404, "none", "text/plain")
    with (
        tempfile.TemporaryDirectory() as folder,
        open_site(lambda path, headers, address: answers.get(path, missing), 0.0) as url,
    ):
        Path(folder, "pages.py").write_text(SPIDER)
        command = [sys.executable, "-m", "shoal", "crawl", "pages.py", url, "--allow-private", "--rate", "0"]
        environ = {**os.environ, "SHOAL_CRAWL_LEVEL": level, "SHOAL_CRAWL_ROBOTS": "0"}
        process = subprocess.Popen([*command, "--quiet"], cwd=folder, env=environ)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{level}: the crawl ended with {process.returncode}")
        log = FetchLogReader(open_segments(str(Path(folder, "shoal-data", "archive")), "pages"))
        rows = log.new_rows({}, limit=100_000)
        return used.ru_utime + used.ru_stime, sum(row.wire_bytes for row in rows if row.level == level)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=30)
    parser.add_argument("--price-gb", type=float, default=5.0)
    given = parser.parse_args()
    table = Table("level", "CPU ms/page", "bytes/page", "money per million pages", title_justify="left")
    for level, times in LEVELS.items():
        pages = given.pages * times
        few, many = crawl(level, 3), crawl(level, 3 + pages)
        cpu, size = ((after - before) / pages for before, after in zip(few, many, strict=True))
        table.add_row(level, f"{1000 * cpu:.1f}", f"{size:,.0f}", f"{size * given.price_gb / 1000:.2f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
