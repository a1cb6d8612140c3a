"""Runs many cases in one crawl by the real command, and watches the process from outside.

A conductor paces the crawl from within: its first page leads to well-behaved hosts, and its second, which holds
all cases, answers 429 until the crawl has come to rest and been measured. A last page is held back the same way until
every case has ended and what the crawl holds open has been measured again. So both measurements are of one process,
alive and idle.
"""

import asyncio
import html
import json
import sqlite3
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.e2e.command import surroundings
from tests.hostile.case import CONCURRENCY, PLACES, Case, Ended, Evidence, once, page, site
from tests.hostile.names import REBOUND, zone
from tests.servers.process import program
from tests.servers.proxies import Login, Tinyproxy, proxy_server
from tests.site.certificates import Authority, make_authority
from tests.site.name_server import name_server
from tests.site.raw import Handler, Peer, RawServer, answer, raw_server

from shoal.model.request import FINGERPRINT_KEY
from shoal.model.url import canonical, fingerprint_of
from shoal.services.inspect.status import status

ROOT = Path(__file__).parents[2]
SPIDER = Path(__file__).parent / "spider.py"
SECRET = "hunter2"
GOOD_KIND = "good"
GOOD_HOSTS = 20
DEADLINE = 110.0  # for all cases of a crawl together
PARSE_MEMORY = 128 << 20  # bytes that a parse process may need for a page
BROWSER_MEMORY = 384 << 20  # bytes that a renderer may need for a page

SETTINGS = """
[crawl]
rate = 0.0
per_host = 16
concurrency = {concurrency}
procs = 2
depth = 40
same_host = false
allow_private = true
exit_kind = "{exit_kind}"
robots = {robots}
ca_file = "{ca_file}"
nameservers = "{nameservers}"
[crawl.headers]
Authorization = "Bearer {secret}"
[retry]
max_retries = 2
base = 0.1
rest = 0.3
rest_ceiling = 3.0
max_rests = 1000
[slowdown]
ceiling = 0.1
[fetch]
connect = 4.0
tls = 5.0
first_byte = {first_byte}
idle = 3.0
total = 20.0
slow_after = 2.0
[links]
per_host = {budget}
[parse]
cpu = 2.0
wall = 10.0
memory_bytes = {parse_memory}
output_bytes = 4_194_304
items = 5_000
[browser]
page_s = 4.0
memory_bytes = {browser_memory}
wire_bytes = 4_194_304
idle_s = 2.0
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of a crawl of cases."""

    robots: bool = False  # whether it asks for robots.txt
    concurrency: int = CONCURRENCY
    first_byte: float = 3.0  # seconds
    budget: int = 100  # requests that one host may bring
    renders: bool = False  # whether a browser renders the cases
    room: int = 256 << 20  # bytes that it may need on top of what it needs when idle
    child_room: int = PARSE_MEMORY + (48 << 20)  # of one process: a page, and the modules of the spider
    exits: bool = False  # whether every request leaves through an exit


USUAL = Terms()


@dataclass(frozen=True, slots=True)
class Sample:
    """What a crawl holds at one moment."""

    memory: int  # bytes of all its processes, shared pages counted once
    largest_child: int  # bytes of the child that has most: a parse process, or a renderer
    files: int  # of the main process, as are the threads
    threads: int
    children: int


@dataclass(slots=True)
class Crawled:
    """Everything that can be asked about a crawl after its end."""

    store: Path
    folder: Path
    pid: int
    code: int
    out: str
    err: str
    before: Sample
    after: Sample
    peak: int  # bytes of all processes but the child that has most
    largest_child: int  # bytes, at any moment
    most_files: int
    concurrency: int
    canary: RawServer
    good: list[str]  # URLs of the well-behaved hosts
    evidence: dict[str, Evidence] = field(default_factory=dict)  # by case id
    fingerprint_key: bytes = b""
    room: int = 256 << 20
    child_room: int = 0
    ended: dict[int, Ended] = field(default_factory=dict)  # by fingerprint

    def end_of(self, request: str) -> Ended | None:
        """Return how "URL", "METHOD URL" or "METHOD URL BODY" has ended."""
        method, url, body = ("GET", request, "") if " " not in request else (*request.split(" "), "")[:3]
        return self.ended.get(fingerprint_of(method, canonical(url), body.encode(), self.fingerprint_key))


def sample(process: psutil.Process) -> Sample:
    children = process.children(recursive=True)
    of_children = [memory_of(one) for one in children]
    memory = memory_of(process) + sum(of_children)
    largest = max(of_children, default=0)
    return Sample(memory, largest, process.num_fds(), process.num_threads(), len(children))


def memory_of(process: psutil.Process) -> int:
    """Return the bytes of a process, pages that several share counted in parts; 0: it has ended."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0) * 1024


class Conductor:
    """Holds pages back until they are released."""

    def __init__(self) -> None:
        self.released: set[str] = set()
        self.asked: dict[str, int] = {}
        self.pages: dict[str, bytes] = {}

    def __call__(self, peer: Peer, request: bytes) -> bytes:
        path = request.split(b" ", 2)[1].decode()
        self.asked[path] = self.asked.get(path, 0) + 1
        if path not in self.pages:
            return answer(b"", status=404, headers=(("Connection", "close"),))
        if path not in self.released:
            return page("", ("Retry-After", "1"), status=429)
        return self.pages[path]


async def run(cases: Sequence[Case], folder: Path, terms: Terms = USUAL) -> Crawled:
    """Crawl all cases at once and gather what came of it."""
    async with AsyncExitStack() as stack:
        REBOUND.clear()
        ca_folder = folder / "ca"
        ca_folder.mkdir(parents=True)
        authority = make_authority(ca_folder)
        nameserver = await stack.enter_async_context(name_server(zone))
        canary = await stack.enter_async_context(raw_server(once(page("<title>forbidden</title>"))))
        PLACES[b"{canary}"] = f"{canary.port:08}".encode()
        servers: dict[str, RawServer] = {}
        hostile = await stack.enter_async_context(AsyncExitStack())
        for number, case in enumerate(cases):
            address = case.bind or f"127.1.{number // 200}.{1 + number % 200}"
            servers[case.id] = server = await _serve(hostile, case, address, authority)
            PLACES[f"{{at {case.id}}}".encode()] = f"{server.host}:{server.port}".encode()
        conductor = Conductor()
        leader = await stack.enter_async_context(raw_server(site({"*": conductor}), host="127.0.0.1"))
        good = [
            (await stack.enter_async_context(raw_server(_good(), host=f"127.2.0.{n + 1}"))).url("/")
            for n in range(GOOD_HOSTS)
        ]
        seeds = [
            filled_url(seed, servers[case.id], case, canary) for case in cases for seed in seeds_of(case)
        ]
        conductor.pages = {
            # Names as well: what a resolver opens when it is first asked is part of the first measurement.
            "/": _links(
                [
                    *(f"{url}warm" for url in good),
                    *(leader.url("/warm", host=f"warm{n}.test") for n in range(40)),
                    leader.url("/go"),
                ]
            ),
            "/go": _links([*good, leader.url("/end")], seeds, "render" if terms.renders else ""),
            "/end": page(),
        }
        conductor.released.add("/")
        if terms.renders:
            program("chromium-headless-shell", "chromium-headless-shell")  # installed, if it is not there
        exits = await _open_exits(stack, hostile, cases, servers, authority, folder) if terms.exits else None
        (folder / "shoal.toml").write_text(
            ("" if exits is None else exits.settings)
            + SETTINGS.format(
                exit_kind="" if exits is None else GOOD_KIND,
                robots="true" if terms.robots else "false",
                ca_file=authority.file,
                nameservers=nameserver,
                secret=SECRET,
                concurrency=terms.concurrency,
                first_byte=terms.first_byte,
                budget=terms.budget,
                parse_memory=PARSE_MEMORY,
                browser_memory=BROWSER_MEMORY,
            )
        )
        crawled = await _crawl(folder, leader.url("/"), conductor, hostile, canary, good)
        crawled.concurrency, crawled.room = terms.concurrency, terms.room
        crawled.child_room = terms.child_room
        crawled.fingerprint_key, crawled.ended = read_ends(crawled.store)
        items = [json.loads(line) for line in (folder / "items.jsonl").read_text("utf-8").splitlines()]
        elsewhere = {f"{server.host}:{server.port}" for server in (*servers.values(), leader)}
        elsewhere |= {url.split("/", 3)[2] for url in good}
        for case in cases:
            server = servers[case.id]
            ended = {
                key: crawled.end_of(filled_url(key, server, case, canary)) or Ended("nowhere")
                for key in ends_of(case)
            }
            # By port, because some cases have separate names; but another server, at another address, may
            # have been given the same one.
            others = elsewhere - {f"{server.host}:{server.port}"}
            mine = [item for item in items if _came_from(str(item.get("url")), server.port, others)]
            own = () if exits is None else exits.servers.get(case.id, ())
            crawled.evidence[case.id] = Evidence(server, ended, mine, own)
        return crawled


def secured(serve: Handler, context: ssl.SSLContext) -> Handler:
    """Speak TLS on connections that are counted before their handshake."""

    async def handler(peer: Peer) -> None:
        await peer.writer.start_tls(context)
        await serve(peer)

    return handler


@dataclass(frozen=True, slots=True)
class OpenExits:
    """The exits of a crawl: the good one, and those of cases."""

    settings: str  # as in shoal.toml
    servers: Mapping[str, Sequence[RawServer]]  # of cases, by id


async def _open_exits(
    stack: AsyncExitStack,
    hostile: AsyncExitStack,
    cases: Sequence[Case],
    servers: Mapping[str, RawServer],
    authority: Authority,
    folder: Path,
) -> OpenExits:
    """Run a real proxy for all hosts, and the exits of each case, which only its host is asked through."""
    good = await stack.enter_async_context(
        proxy_server(Tinyproxy, folder / "proxy", Login("good", f"{SECRET}-good"))
    )
    lines, kinds, hosts = [], [GOOD_KIND], []
    opened: dict[str, list[RawServer]] = {}
    for number, case in enumerate(cases):
        if not case.exits:
            continue
        kind, server = f"case{number}", servers[case.id]
        hosts.append(f'[hosts."{server.host}:{server.port}"]\nexit_kind = "{kind}"\n')
        kinds += [] if case.alone else [kind]
        own = opened[case.id] = []
        for place, exit in enumerate(case.exits):
            serve = exit.serve if exit.tls is None else secured(exit.serve, exit.tls(authority))
            own.append(await hostile.enter_async_context(raw_server(serve)))
            line = exit.line.format(
                user=f"user{number}-{place}",
                password=f"{SECRET}-{number}-{place}",
                exit=f"127.0.0.1:{own[-1].port}",
            )
            lines.append(f"{line} name=a{number}-{place} kind={kind} connections=16")
    # Its name is the last one: with rotation request, a host is asked through its hostile exits first.
    lines.append(f"{good.line} name=zz-good kind={','.join(kinds)} connections={CONCURRENCY}")
    listed = "".join(f"  {json.dumps(line)},\n" for line in lines)
    proxies = f'[proxies]\nrotation = "request"\ncool_off = 1.0\nlist = [\n{listed}]\n'
    return OpenExits(proxies + "".join(hosts), opened)


def _came_from(url: str, port: int, others: Collection[str]) -> bool:
    authority = url.split("/", 3)[2] if url.count("/") > 2 else ""
    return authority.endswith(f":{port}") and authority not in others


async def _serve(stack: AsyncExitStack, case: Case, address: str, authority: Authority) -> RawServer:
    if case.opened is not None:
        return stack.enter_context(case.opened(authority))
    handler = once(case.serve) if isinstance(case.serve, bytes) else case.serve
    tls = case.tls(authority) if case.tls is not None else None
    return await stack.enter_async_context(raw_server(handler, host=address, tls=tls))


def _good() -> Callable[[Peer], Awaitable[None]]:
    robots = answer(b"", status=404)

    async def handler(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(
            robots if b"/robots.txt" in request else page("<title>good</title>", ("Connection", "close"))
        )

    return handler


def _links(urls: Sequence[str], cases: Sequence[str] = (), kind: str = "") -> bytes:
    found = [*((url, kind) for url in cases), *((url, "") for url in urls)]
    anchors = [f'<a class="{kind}" href="{html.escape(url)}">x</a>' for url, kind in found]
    return page("<title>links</title>" + "".join(anchors))


def seeds_of(case: Case) -> Sequence[str]:
    return case.seeds or [next(iter(ends_of(case)))]


def ends_of(case: Case) -> Mapping[str, str]:
    secure = case.tls is not None or (case.opened is not None and case.row.startswith("T"))
    return {f"http{'s' if secure else ''}://{{at}}/": case.ends} if isinstance(case.ends, str) else case.ends


def filled_url(url: str, server: RawServer, case: Case, canary: RawServer) -> str:
    at = f"{'127.0.0.1' if case.bind == '0.0.0.0' else server.host}:{server.port}"
    return url.replace("{at}", at).replace("{port}", str(server.port)).replace("{canary}", str(canary.port))


async def _crawl(
    folder: Path,
    start: str,
    conductor: Conductor,
    hostile: AsyncExitStack,
    canary: RawServer,
    good: list[str],
) -> Crawled:
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "shoal", "crawl", str(SPIDER), start, "--store", "store"),
            *("--out", "items.jsonl", "--out", "items.csv", "-v", "--json"),
            cwd=folder,
            env=surroundings({"PYTHONPATH": ":".join([str(ROOT / "src"), str(ROOT)]), "TOKEN": SECRET}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        watched = psutil.Process(process.pid)
        samples: list[Sample] = []

        async def watch() -> None:
            while True:
                samples.append(sample(watched))
                await asyncio.sleep(0.1)

        try:
            watching = asyncio.create_task(watch())
            await until(lambda: conductor.asked.get("/go", 0) >= 3, process)
            before = sample(watched)
            conductor.released.add("/go")
            await until_only_the_end_is_left(folder / "store", conductor, process)
            await hostile.aclose()  # idle connections end with their servers
            after = await until_at_rest(watched, before)
            conductor.released.add("/end")
            watching.cancel()
            async with asyncio.timeout(60):
                code = await process.wait()
        finally:
            watching.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()
    return Crawled(
        store=folder / "store",
        folder=folder,
        pid=process.pid,
        code=code,
        out=(folder / "out").read_text(),
        err=(folder / "err").read_text(),
        before=before,
        after=after,
        peak=max(one.memory - one.largest_child for one in samples),
        largest_child=max(one.largest_child for one in samples),
        most_files=max(one.files for one in samples),
        concurrency=CONCURRENCY,
        canary=canary,
        good=good,
    )


async def until(ready: Callable[[], bool], process: asyncio.subprocess.Process) -> None:
    deadline = time.monotonic() + DEADLINE
    while not ready():
        assert process.returncode is None, "the crawl has ended"
        assert time.monotonic() < deadline, "the crawl has not come to rest"
        await asyncio.sleep(0.1)


async def until_only_the_end_is_left(
    store: Path, conductor: Conductor, process: asyncio.subprocess.Process
) -> None:
    deadline = time.monotonic() + DEADLINE
    counts: Mapping[str, int] = {}
    while True:
        assert process.returncode is None, "the crawl has ended"
        assert time.monotonic() < deadline, f"not every case has ended: {counts}"
        await asyncio.sleep(0.25)
        [crawl] = (await status(str(store))).crawls
        counts = crawl.counts
        open = sum(counts.get(state, 0) for state in ("waiting", "delayed", "leased", "parsing"))
        if open <= 1 and conductor.asked.get("/end", 0) > 1:
            return


async def until_at_rest(process: psutil.Process, before: Sample) -> Sample:
    """Wait until the crawl holds no more than it did; what it held last, if it never does."""
    deadline = time.monotonic() + 20
    while True:
        now = sample(process)
        grown = now.files > before.files or now.threads > before.threads or now.children > before.children
        if not grown or time.monotonic() > deadline:
            return now
        await asyncio.sleep(0.25)


def read_ends(store: Path) -> tuple[bytes, dict[int, Ended]]:
    """Read the end of every request. A request that has two, or none, is an error."""
    database = sqlite3.connect(f"file:{store / 'store.db'}?mode=ro", uri=True)
    ends: dict[int, Ended] = {}
    try:
        for fp, state, rule, reason, items in database.execute(
            "SELECT fp, state, rule, reason, items FROM ended"
        ):
            assert fp not in ends, "a request has ended twice"
            ends[fp] = Ended(f"{state} {rule}" if rule else state, reason or "", 0, items or 0)
        for fp, kind, reason, attempts in database.execute("SELECT fp, kind, reason, attempts FROM dead"):
            assert fp not in ends, "a request has ended twice"
            ends[fp] = Ended(f"dead {kind}", reason, attempts)
        [[key]] = database.execute("SELECT value FROM crawl_state WHERE key = ?", (FINGERPRINT_KEY,))
    finally:
        database.close()
    return bytes(key), ends
