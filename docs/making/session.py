"""What commands print, in the pages that show it.

The `console` blocks of a page are a session: the commands after `$` run in the order of the page, in an empty
folder with `books.py`, next to a small bookshop and an empty Valkey, and their output is put below them.
Figures that differ between runs (times, sizes, ids) stay as the page has them. Any other difference is
rewritten by `make docs` and fails the test. Commands connect to Valkey as the restricted user of
`docs/redis.md`.

Two comments control it, each on a separate line. `<!-- before: COMMAND -->` runs a command that is not
shown. `<!-- sample -->` says that the next block depends on the machine: it is typed, and what it prints is
not compared.
"""

import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from urllib.parse import quote

from tests.e2e.command import surroundings
from tests.e2e.command_server import SERVER
from tests.servers.redis import valkey
from tests.site.bookshop import open_bookshop
from tests.site.name_server import NXDOMAIN, name_server

ROOT = Path(__file__).parents[2]
HOST = "books.example"
SHOP = f"https://{HOST}"
STORE = "redis://queue.example"
REDIS = ROOT / "docs" / "redis.md"
_NAME = "bk.test"  # with a port it is as long as the name in the pages, so columns stay where they are

SPIDER = f"""\
import shoal

spider = shoal.Spider("books", start=["{SHOP}/"], follow=r"/catalogue/", key="url")


@spider.page(r"/catalogue/[^/]+/index.html")
def book(page):
    yield {{"url": page.url, "title": page.css("h1::text").get(), "price": page.css(".price::text").get()}}


@spider.page()
def listing(page):
    yield from page.links("h3 a", priority=3)
    yield from page.links(".next a", priority=1)
"""

PAGES = [
    *sorted((ROOT / "docs" / "commands").glob("[a-z]*.md")),
    REDIS,
    ROOT / "docs" / "cookbook.md",
    ROOT / "docs" / "from-scrapy.md",
    ROOT / "docs" / "security.md",
]
"""The pages that show sessions."""

_WHOLE = re.MULTILINE | re.DOTALL
_BLOCK = re.compile(r"^(?P<open>```console\n)(?P<lines>.*?)(?=^```$)", _WHOLE)
_BEFORE = re.compile(r"^<!-- before: (.+) -->$", re.MULTILINE)
_SAMPLE = "<!-- sample -->\n"

_PROGRESS = re.compile(r"^\S+Z info crawl\.progress .*\n", re.MULTILINE)  # on a machine that is slow today

# No two runs share these. What is counted (pages, items, letters) is not among them.
_VARIES = re.compile(
    r"""\ {2,}[\d.,]+\ (?:ms|s)\b | \ {2,}[\d.]+/s\b | \bslowed\ [\d.]+x      # columns of hosts
    | (?m:^\ {12}by\ laptop-.*$)                                         # the phases of an attempt
    | \d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ | \b1[789]\d{8}\.\d+          # times
    | \b\d+[dhm]\ \d\d[hms]\b | \b\d+\.\d\ds\b | \b[\d.,]+\ (?:ms|s|B|kB|MB|bytes)\b  # durations, sizes
    | \b[\d.,]+\ (?:pages/s|pages\ a\ second|at\ once\ will\ do)\b
    | \b\d{8}-\d+\.warc | (?<=\ at\ )[\d,]+\b                               # places in the archive
    | \b[0-9a-f]{16}\b | \blaptop-\d+(?:-[0-9a-f]{4})?\b                   # trace ids and processes
    | (?<=by\ version\ )[0-9a-f]{12}\b | (?<="version":\ ")[0-9a-f]{12}\b     # spiders, which name a port
    | (?<=version=)[0-9a-f]{12}\b
    | (?<="elapsed_s":\ )[\d.e-]+ | (?<="pages_per_s":\ )[\d.]+
    | (?:(?<="dns":\ )|(?<="tls":\ )|(?<="body":\ )|(?<="queue":\ )|(?<="connect":\ )|(?<="first_byte":\ )
        |(?<="cpu_ms":\ )|(?<="p50_ms":\ )|(?<="p95_ms":\ )|(?<="p99_ms":\ ))[\d.e-]+
    | (?<="bytes":\ )\d+ | (?<="offset":\ )\d+ | (?<="length":\ )\d+""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Shop:
    """The bookshop, running, and a store for a fleet beside it."""

    address: str
    nameserver: str
    store: str

    def typed(self, command: str, folder: Path, *, last: int = 0) -> tuple[str, int]:
        """Type a command as the page has it; `last` is the exit code of the one before, for `$?`."""
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        with SERVER.in_path(surroundings({**self._settings(), "PATH": path})) as (env, descriptor):
            done = subprocess.run(
                ["bash", "-c", f"(exit {last})\n{self._as_typed(command)}"],
                cwd=folder,
                env=env,
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=90,
                check=False,
            )
        return self._as_shown(done.stdout, folder), done.returncode

    def _as_typed(self, command: str) -> str:
        return command.replace(STORE, self.store).replace(SHOP, self.address).replace(HOST, self.host)

    def _as_shown(self, printed: str, folder: Path) -> str:
        for here, there in (
            (f"redis://{self.store.rpartition('@')[2]}", STORE),  # no command shows a password
            (self.address, SHOP),
            (self.host, HOST),
            (quote(self.host), HOST),
            (str(folder), "/home/me/books"),
            (f"{gethostname()}-", "laptop-"),  # a holder: host and process
        ):
            printed = printed.replace(here, there)
        return _PROGRESS.sub("", printed)

    @property
    def host(self) -> str:
        return self.address.partition("://")[2]

    def _settings(self) -> dict[str, str]:
        return {
            "SHOAL_CRAWL_ALLOW_PRIVATE": "true",
            "SHOAL_CRAWL_NAMESERVERS": self.nameserver,
            "SHOAL_CRAWL_RATE": "200",
            "SHOAL_RETRY_BASE": "0.01",
            "COLUMNS": "100",
            "PYTHONWARNINGS": "ignore",  # a reader has no plugin of ours that would warn
        }


@asynccontextmanager
async def open_shop() -> AsyncIterator[Shop]:
    """Serve the bookshop that the pages talk about, under a name, and the store of their fleets."""
    with open_bookshop() as authority, TemporaryDirectory() as folder:
        address, _, port = authority.partition(":")
        async with (
            name_server(lambda name: [address] if name == _NAME else NXDOMAIN) as nameserver,
            valkey(Path(folder), "--appendonly", "yes") as server,
        ):
            _, _, user, _, password, *_ = rule = user_of_the_store()
            await server.ask(*rule)
            store = f"redis://{user}:{password.removeprefix('>')}@{server.address}"
            yield Shop(f"http://{_NAME}:{port}", nameserver, store)


def user_of_the_store() -> list[str]:
    """Find the command that makes the user of a fleet."""
    [rule] = re.finditer(r"^ACL SETUSER .+$", REDIS.read_text(), re.MULTILINE)
    return rule[0].split()


def renewed(page: str, shop: Shop, folder: Path) -> str:
    """Go through a page's session and return the page with what is printed now."""
    for name, text in {"books.py": SPIDER, **files(page)}.items():
        (folder / name).write_text(text.replace(SHOP, shop.address).replace(HOST, shop.host))
    parts, at, last = [], 0, 0
    for block in _BLOCK.finditer(page):
        between = page[at : block.start()]
        for hidden in _BEFORE.findall(between):
            printed, code = shop.typed(hidden, folder)
            assert code == 0, f"{hidden}: {printed}"
        lines = []
        for command, shown in _steps(block["lines"]):
            printed, last = shop.typed(command, folder, last=last)
            same = between.endswith(_SAMPLE) or _VARIES.sub("#", printed) == _VARIES.sub("#", shown)
            lines.append(f"$ {command}\n{shown if same else printed}")
        parts += [between, block["open"], *lines]
        at = block.end()
    return "".join([*parts, page[at:]])


def files(page: str) -> dict[str, str]:
    """Find the files that a page shows: blocks whose first line is a comment with a name."""
    return {
        block[2]: block[1]
        for block in re.finditer(r"^```(?:python|toml)\n(# (\S+\.(?:py|toml))\n.*?)^```$", page, _WHOLE)
    }


def _steps(lines: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with the output below it."""
    for step in re.split(r"^\$ ", lines, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        yield command, shown
