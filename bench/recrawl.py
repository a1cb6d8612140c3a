"""What a second generation of unchanged pages costs: `python -m bench.recrawl [PAGES] [--bytes N ...]`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGES = 10_000
PAGE_BYTES = 100_000
SPIDER = """
import shoal

spider = shoal.Spider("catalogue")

@spider.page()
def parse(page):
    names = ("price", "sku", "stock", "rating")
    yield {"url": page.url, "title": page.css("h1::text").get()} | {
        name: page.css(f".{name}::text").get() for name in names
    }
    yield page.links()
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one generation has cost."""

    cpu_s: float  # of all processes of the crawl
    requests: int
    body_bytes: int
    items: int


@contextmanager
def serving(pages: int, page_bytes: int) -> Iterator[str]:
    """Serve the site from a separate process, which is not measured."""
    command = [sys.executable, "-m", "tests.site.changing", str(pages), str(page_bytes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.communicate()


def measure(url: str, folder: Path, *flags: str) -> Cost:
    """Crawl once, and return what it has cost."""
    before = _stats(url)
    (folder / "spider.py").write_text(SPIDER)
    command = [sys.executable, "-m", "shoal", "crawl", "spider.py", url, "--out", "items.jsonl", "--quiet"]
    command += ["--allow-private", "--rate", "0", "--per-host", "16", *flags]
    process = subprocess.Popen(command, cwd=folder)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"the crawl ended with exit code {process.returncode}")
    after = _stats(url)
    with (folder / "items.jsonl").open() as items:
        return Cost(
            used.ru_utime + used.ru_stime,
            sum(after["statuses"].values()) - sum(before["statuses"].values()),
            after["body_bytes"] - before["body_bytes"],
            sum(1 for _ in items),
        )


def _stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}stats", timeout=60) as response:
        found: dict[str, Any] = json.load(response)
        return found


def compare(pages: int, page_bytes: int) -> tuple[Cost, Cost]:
    """Return the cost of a first and a second generation of a site that does not change."""
    with serving(pages, page_bytes) as url, tempfile.TemporaryDirectory() as folder:
        return measure(url, Path(folder)), measure(url, Path(folder), "--again")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=int, nargs="?", default=PAGES)
    sizes = [12_000, 50_000, PAGE_BYTES]
    parser.add_argument("--bytes", type=int, nargs="+", default=sizes, help="size of a page")
    given = parser.parse_args()
    print(f"{'pages of':10}{'generation':>12}{'requests':>10}{'bodies':>16}{'items':>9}{'CPU':>9}{'cost':>7}")
    for page_bytes in given.bytes:
        first, second = compare(given.pages, page_bytes)
        for name, cost in (("first", first), ("second", second)):
            print(
                f"{page_bytes // 1000:>4} KB   {name:>12}{cost.requests:>10,}{cost.body_bytes:>14,} B"
                f"{cost.items:>9,}{cost.cpu_s:>7.1f} s{cost.cpu_s / first.cpu_s:>7.0%}"
            )


if __name__ == "__main__":
    main()
