"""What the documentation tells people to type works as written."""

import json
import re
import shlex
import tomllib
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import get_args

import pytest
from docs.making.session import SHOP, STORE, files
from tests.e2e.command import Ran, shoal, started
from tests.servers.redis import RedisServer, valkey
from tests.site.books import BOOKS
from tests.site.server import ServedSite, serving

from shoal.cli.demo.shop import Shop
from shoal.model.api.webhooks import WebhookEvent
from shoal.model.configuration.configure import TYPES

ROOT = Path(__file__).parents[2]
GUIDE, README = ROOT / "docs" / "guide.md", ROOT / "README.md"
OPEN_SHOP = "http://127.0.0.1:8000/"  # of `shoal demo --serve`
SITE = f"{SHOP}/"

# The bookshop of the documentation is on this machine and in a hurry; commands are typed as they stand.
LOCAL = {"SHOAL_CRAWL_ALLOW_PRIVATE": "true", "SHOAL_CRAWL_RATE": "0", "SHOAL_RETRY_BASE": "0.01"}

# The demo shop takes 30 ms for a page: 15 seconds for a crawl that asks for one page after the other.
HURRIED = {"SHOAL_CRAWL_PER_HOST": "16", "SHOAL_RETRY_BASE": "0.01"}


def commands(page: Path) -> list[str]:
    return [
        line.removeprefix("$ ").partition(" #")[0].strip()
        for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


def write_files(page: Path, folder: Path, here: str) -> None:
    for name, text in files(page.read_text()).items():
        (folder / name).write_text(text.replace(SITE, here))


@pytest.fixture
async def books() -> AsyncIterator[ServedSite]:
    async with serving("tests.site.books:build", "", hosts=1) as site:
        yield site


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server", "--appendonly", "yes") as server:
        yield server


async def test_every_command_of_the_guide_works_as_written(
    books: ServedSite, server: RedisServer, tmp_path: Path
) -> None:
    here = f"http://{books.authorities[0]}/"
    write_files(GUIDE, tmp_path, here)
    run = 0
    for command in commands(GUIDE):
        done = _typed(command.replace(SITE, here).replace(STORE, server.dsn), tmp_path, LOCAL)
        assert done.code == 0, f"{command}: {done.err}"
        run += 1
    assert run >= 5
    assert set(_items(tmp_path)) == {BOOKS}


async def test_every_command_of_the_readme_works_as_pasted_next_to_the_demo_shop(
    server: RedisServer, tmp_path: Path
) -> None:
    typed = commands(README)
    assert typed.index("shoal demo --serve") < typed.index(next(one for one in typed if "crawl" in one))
    with started("demo", "--serve", "--port", "0", "--json", cwd=tmp_path) as shop:
        assert shop.stdout is not None
        here = json.loads(shop.stdout.readline())["url"]
        [(name, text)] = files(README.read_text()).items()
        (tmp_path / name).write_text(text.replace(OPEN_SHOP, here))
        run = 0
        for command in typed:
            if command.startswith("pip install "):
                _names_known_extras(command)
            elif command.startswith("shoal serve"):
                _serves(command, tmp_path)
            elif not command.startswith("shoal demo"):
                done = _typed(command.replace(OPEN_SHOP, here).replace(STORE, server.dsn), tmp_path, HURRIED)
                assert done.code == 0, f"{command}: {done.err}"
                run += 1
    assert run >= 10
    assert _items(tmp_path) == [len(Shop().products)] * 3


def _serves(command: str, folder: Path) -> None:
    """Start a server on a free port; it prints where, and answers there."""
    with started(*shlex.split(command)[1:], "--listen", "127.0.0.1:0", cwd=folder) as server:
        assert server.stdout is not None
        [found] = re.findall(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        with urllib.request.urlopen(f"{found}/healthz", timeout=30) as answer:
            assert answer.status == 200


def _names_known_extras(command: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [asked] = re.findall(r"^pip install '?\.(?:\[(.+)\]')?$", command)
    assert set(filter(None, asked.split(","))) <= set(extras)


def _typed(command: str, folder: Path, env: Mapping[str, str]) -> Ran:
    """Type a command of the documentation; the program of the wheel is typed by `test_first_day.py`."""
    program, *arguments = shlex.split(command)
    assert program == "shoal"
    return shoal(*arguments, cwd=folder, env=env)


def _items(folder: Path) -> list[int]:
    """Count the items of each file that a crawl has written."""
    return [len(file.read_text().splitlines()) for file in folder.glob("*.jsonl")]


DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

WITH_SETTINGS = [page for page in DOCUMENTS if page.name != "logs.md"]  # events have names of the same form


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as links do."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_documentation_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", WITH_SETTINGS, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_that_the_documentation_names_exist(page: Path) -> None:
    sections = "|".join({key.partition(".")[0] for key in TYPES if "." in key})
    events = get_args(WebhookEvent)  # they look like settings
    assert set(re.findall(rf"`((?:{sections})\.[a-z_]+)`", page.read_text())) <= {*TYPES, *events}


GLOSSARY = ROOT / "docs" / "glossary.md"


@pytest.mark.parametrize("word", re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(), re.MULTILINE))
def test_a_word_of_the_glossary_is_the_word_in_the_code(word: str) -> None:
    said = re.compile(
        rf"\b{word.replace(' ', '[ _]?')}", re.IGNORECASE
    )  # dead letter: DeadLetter, dead_letters
    assert any(said.search(path.read_text()) for path in (ROOT / "src").rglob("*.py"))
