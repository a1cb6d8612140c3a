"""What the documentation tells people to type works as written."""

import re
import shlex
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docs.making.session import SHOP, STORE, files
from tests.e2e.command import surroundings
from tests.servers.redis import RedisServer, valkey
from tests.site.books import BOOKS
from tests.site.server import ServedSite, serving

from shoal.model.configuration.configure import TYPES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "guide.md"]
SITE = f"{SHOP}/"

# The bookshop of the documentation is on this machine and in a hurry; commands are typed as they stand.
LOCAL = {"SHOAL_CRAWL_ALLOW_PRIVATE": "true", "SHOAL_CRAWL_RATE": "0", "SHOAL_RETRY_BASE": "0.01"}


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_every_command_works_as_written(
    page: Path, books: ServedSite, server: RedisServer, tmp_path: Path
) -> None:
    here = f"http://{books.authorities[0]}/"
    write_files(page, tmp_path, here)
    run = 0
    for command in commands(page):
        if command.startswith("make "):
            _can_be_made(command)
            continue
        done = _typed(command.replace(SITE, here).replace(STORE, server.dsn), tmp_path)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        run += 1
    assert run >= 5
    assert set(_items(tmp_path)) == {BOOKS}


def _typed(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    program, *arguments = shlex.split(command)
    return subprocess.run(
        [str(ROOT / ".venv" / "bin" / program), *arguments],
        cwd=folder,
        env=surroundings(LOCAL),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def _items(folder: Path) -> list[int]:
    """Count the items of each file that a crawl has written."""
    return [len(file.read_text().splitlines()) for file in folder.glob("*.jsonl")]


def _can_be_made(command: str) -> None:
    """Check that a target exists; running `make test` from a test would never end."""
    subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


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
    assert set(re.findall(rf"`((?:{sections})\.[a-z_]+)`", page.read_text())) <= set(TYPES)


GLOSSARY = ROOT / "docs" / "glossary.md"


@pytest.mark.parametrize("word", re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(), re.MULTILINE))
def test_a_word_of_the_glossary_is_the_word_in_the_code(word: str) -> None:
    said = re.compile(
        rf"\b{word.replace(' ', '[ _]?')}", re.IGNORECASE
    )  # dead letter: DeadLetter, dead_letters
    assert any(said.search(path.read_text()) for path in (ROOT / "src").rglob("*.py"))
