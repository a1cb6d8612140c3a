"""Secrets given to a crawl: to which servers they go, and what the store still has when the crawl is over.

Servers with several names, schemes and ports record every request. One crawl follows links and redirects between
all of them, in a folder and in a fleet.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.e2e.command import shoal
from tests.servers.redis import valkey
from tests.site.certificates import Authority, make_authority
from tests.site.name_server import name_server
from tests.site.raw import Handler, Peer, answer, raw_server

HEADERS = {"Authorization": "Bearer s3cret-auth", "X-Api-Key": "s3cret-key", "X-Shop-Pass": "s3cret-pass"}
COOKIE = "s3cret-cookie"
BLOCK = "s3cret-block"
FORM, TOKEN = "s3cret-form", "s3cret-token"

CRAWL = frozenset({*HEADERS, "login cookie"})
NAMES = ("home", "www.home", "other", "block", "seed", "stranger")

# It puts its secrets together, because its own text is part of the crawl's record.
SPIDER = """
import shoal

spider = shoal.Spider("secrets", start={start!r})

@spider.page()
def page(page):
    yield {{"url": page.url}}
    if page.url.endswith("/start"):
        body = b"user=u&password=s3cret" + b"-form"
        headers = {{"X-Token": "s3cret" + "-token"}}
        yield shoal.Request(url={form!r}, method="POST", body=body, headers=headers)
    yield from page.links("a")
"""

SETTINGS = """
[crawl]
allow_private = true
same_host = false
rate = 0
nameservers = "{nameservers}"
ca_file = "{ca_file}"
[crawl.headers]
{headers}
[crawl.cookies]
login = "{cookie}"
[retry]
base = 0.01
[hosts."block.test:{tls}"]
headers = {{ X-Block = "{block}" }}
[hosts."block.test:{plain}"]
headers = {{ X-Block = "{block}" }}
"""


@dataclass
class Servers:
    """The same site on two TLS ports and a plain one."""

    tls: int = 0
    other_tls: int = 0
    plain: int = 0
    sent: dict[str, frozenset[str]] = field(default_factory=dict)  # method and URL -> secrets that arrived

    def at(self, name: str, path: str, *, scheme: str = "https", port: int = 0) -> str:
        port = port or (self.tls if scheme == "https" else self.plain)
        return f"{scheme}://{name}.test:{port}{path}"

    def pages(self) -> dict[str, tuple[list[str], str]]:
        """Return by URL what a page links to, and where it redirects to."""
        at = self.at
        links = [
            at("home", "/page"),
            at("home", "/link", scheme="http"),
            at("home", "/link", port=self.other_tls),
            at("www.home", "/link"),
            at("other", "/link"),
            at("block", "/link"),
            at("block", "/link", scheme="http"),
            at("home", "/go-home"),
            at("home", "/go-other"),
            at("home", "/go-http"),
            at("home", "/go-port"),
            at("other", "/go-block"),
        ]
        return {
            at("home", "/start"): (links, ""),
            at("seed", "/"): ([], at("stranger", "/")),
            at("stranger", "/"): ([at("stranger", "/more"), at("home", "/from-stranger")], ""),
            at("home", "/go-home"): ([], at("home", "/landed")),
            at("home", "/go-other"): ([], at("other", "/landed")),
            at("home", "/go-http"): ([], at("home", "/landed", scheme="http")),
            at("home", "/go-port"): ([], at("home", "/landed", port=self.other_tls)),
            at("other", "/go-block"): ([], at("block", "/landed")),
            at("other", "/landed"): ([at("other", "/deeper")], ""),
        }

    def handler(self, scheme: str) -> Handler:
        async def handle(peer: Peer) -> None:
            while True:
                request = (await peer.request()).decode("latin-1")
                method, path, _ = request.split(" ", 2)
                host = re.search(r"^host: (.*)\r$", request, re.I | re.M)
                assert host is not None
                url = f"{scheme}://{host[1]}{path}"
                self.sent[f"{method} {url}"] = frozenset(_secrets_in(request))
                links, target = self.pages().get(url, ([], ""))
                if path == "/robots.txt":
                    await peer.send(answer(b"User-agent: *\nDisallow: /never\n"))
                elif target:
                    await peer.send(answer(b"", status=302, headers=(("Location", target),)))
                else:
                    body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
                    await peer.send(answer(body, headers=(("Content-Type", "text/html"),)))

        return handle


def _secrets_in(request: str) -> Iterator[str]:
    yield from (name for name, value in HEADERS.items() if value in request)
    named = {"login cookie": COOKIE, "block": BLOCK, "form": FORM, "token": TOKEN}
    yield from (name for name, value in named.items() if value in request)


def expected(servers: Servers) -> dict[str, frozenset[str]]:
    """Return which secrets each request carries: those that were given for its origin, and no others."""
    at, none = servers.at, frozenset[str]()
    table = {
        at("home", "/start"): CRAWL,
        at("home", "/page"): CRAWL,
        at("home", "/go-home"): CRAWL,
        at("home", "/go-other"): CRAWL,
        at("home", "/go-http"): CRAWL,
        at("home", "/go-port"): CRAWL,
        at("home", "/landed"): CRAWL,
        at("home", "/from-stranger"): CRAWL,  # a link like any other: the secrets go home
        at("seed", "/"): CRAWL,
        at("stranger", "/"): none,  # a seed redirects to it, which takes it into scope
        at("stranger", "/more"): none,
        at("home", "/link", scheme="http"): none,
        at("home", "/landed", scheme="http"): none,
        at("home", "/link", port=servers.other_tls): none,
        at("home", "/landed", port=servers.other_tls): none,
        at("www.home", "/link"): none,
        at("other", "/link"): none,
        at("other", "/go-block"): none,
        at("other", "/landed"): none,
        at("other", "/deeper"): none,
        at("block", "/link"): frozenset({"block"}),
        at("block", "/landed"): frozenset({"block"}),
        at("block", "/link", scheme="http"): none,
    }
    robots = {re.sub(r"(test:\d+)/.*", r"\1/robots.txt", url): none for url in table}
    gets = {f"GET {url}": secrets for url, secrets in {**robots, **table}.items()}
    return {**gets, f"POST {at('home', '/login')}": CRAWL | {"form", "token"}}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def serving(authority: Authority, folder: Path) -> AsyncIterator[Servers]:
    """Run the servers, and write a spider and its settings for them."""
    servers = Servers()
    context = authority.server(",".join(f"DNS:{name}.test" for name in NAMES))
    async with (
        raw_server(servers.handler("https"), tls=context) as tls,
        raw_server(servers.handler("https"), tls=context) as other_tls,
        raw_server(servers.handler("http")) as plain,
        name_server(lambda name: ["127.0.0.1"]) as nameserver,
    ):
        servers.tls, servers.other_tls, servers.plain = tls.port, other_tls.port, plain.port
        start = [servers.at("home", "/start"), servers.at("seed", "/")]
        form = servers.at("home", "/login")
        (folder / "secrets.py").write_text(SPIDER.format(start=start, form=form))
        (folder / "shoal.toml").write_text(
            SETTINGS.format(
                nameservers=nameserver,
                ca_file=authority.file,
                headers="\n".join(f'{name} = "{value}"' for name, value in HEADERS.items()),
                cookie=COOKIE,
                block=BLOCK,
                tls=servers.tls,
                plain=servers.plain,
            )
        )
        yield servers


def remains_of(data: bytes) -> set[str]:
    return {found.decode() for found in re.findall(rb"s3cret-\w+", data)}


async def run(*arguments: str, cwd: Path) -> str:
    done = await asyncio.to_thread(shoal, *arguments, cwd=cwd)
    assert done.code == 0, done.err
    return done.out + done.err


async def test_secrets_go_where_they_were_given_for_and_leave_no_trace_in_a_folder(
    authority: Authority, tmp_path: Path
) -> None:
    async with serving(authority, tmp_path) as servers:
        printed = await run("crawl", "secrets.py", "--json", cwd=tmp_path)
        assert servers.sent == expected(servers)
    assert "s3cret" not in printed
    for file in (tmp_path / "shoal-data").rglob("*"):
        if file.is_file():
            assert remains_of(file.read_bytes()) == set(), file


async def test_secrets_go_where_they_were_given_for_and_leave_the_store_of_a_fleet(
    authority: Authority, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with (
        serving(authority, work) as servers,
        valkey(tmp_path / "server", "--rdbcompression", "no") as server,
    ):
        store = ("--store", server.dsn)
        printed = await run("submit", "secrets.py", "--json", *store, cwd=work)
        printed += await run("worker", "--until-done", *store, cwd=work)
        assert servers.sent == expected(servers)
        await server.ask("SAVE")
        assert remains_of((tmp_path / "server" / "dump.rdb").read_bytes()) == set()
    assert "s3cret" not in printed
    for file in (work / "shoal-data").rglob("*"):
        if file.is_file():
            assert remains_of(file.read_bytes()) == set(), file
