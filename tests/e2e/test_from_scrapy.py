"""The rows of `docs/from-scrapy.md`: Scrapy and Shoal run as the page shows, and write the same items."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.peers import scrapy_python
from docs.making.session import ROOT, SHOP, files
from tests.e2e.command import records, surroundings
from tests.needs import missing
from tests.site.books import BOOKS
from tests.site.bookshop import AUTHORS, QUOTES, TITLES, open_bookshop

PAGE = (ROOT / "docs" / "from-scrapy.md").read_text()
ROWS = {
    "The same spider, side by side": BOOKS,
    "Log in": 2,
    "An item of two pages": QUOTES,
    "Post a form": len([title for title in TITLES if "a" in title]),
    "A JSON API": len([title for title in TITLES if "s" in title]),
    "Files": 2,
    "Arguments": 22,  # ten on a page, and two broken links
    "Pipelines": 2,
    "Run from Python": 2,
}
LOCAL = {"SHOAL_CRAWL_ALLOW_PRIVATE": "true", "SHOAL_CRAWL_RATE": "0", "SHOAL_RETRY_BASE": "0.01"}


def rows() -> dict[str, str]:
    """Return the parts of the page that show commands for both sides, by heading."""
    parts = re.split(r"^##+ (.+)$", PAGE, flags=re.MULTILINE)
    return {name: text for name, text in zip(parts[1::2], parts[2::2], strict=True) if "```sh\n" in text}


@pytest.fixture
def shop() -> Iterator[str]:
    with open_bookshop() as address:
        yield f"http://{address}"


@pytest.fixture(scope="module")
def scrapy() -> Path:
    """Return the folder of the command `scrapy`."""
    try:
        return scrapy_python().parent
    except subprocess.SubprocessError as error:
        missing(f"Scrapy cannot be installed: {error}")


def test_every_row_is_tried() -> None:
    assert list(rows()) == list(ROWS)
    assert len(AUTHORS) < QUOTES == 20


@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", ROWS)
def test_both_sides_write_the_same_items(row: str, shop: str, scrapy: Path, tmp_path: Path) -> None:
    text = rows()[row].replace(SHOP, shop)
    for name, content in files(text).items():
        (tmp_path / name).write_text(content)
    [typed] = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for command in typed.splitlines():
        side = scrapy if "_scrapy.py" in command else Path(sys.executable).parent
        run_line(command, tmp_path, side)

    theirs, ours = (sorted(read(tmp_path / f"{side}.jsonl"), key=json.dumps) for side in ("theirs", "ours"))
    assert ours == theirs
    assert len(ours) == ROWS[row]


def run_line(command: str, folder: Path, side: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**surroundings(LOCAL), "PYTHONWARNINGS": "", "PATH": f"{side}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the items of a file; those of Scrapy's pipeline for files list what was stored."""
    items = records(path)
    stored = [one for item in items for one in item.get("files", ())]
    return [{"url": one["url"], "checksum": one["checksum"]} for one in stored] or items
