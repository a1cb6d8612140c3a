"""A spider that attacks from inside its parse process is refused by the kernel, on any kind of machine."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, rmtree
from tempfile import mkdtemp
from typing import Any

import pytest
from tests.adversary.size import sized
from tests.e2e.command import QUICK, SHOAL, Ran, shoal, surroundings
from tests.servers.redis import RedisServer, valkey

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "sandbox"
OTHER = 54321  # a user without any rights
IS_ROOT = os.geteuid() == 0
USERS = [None, OTHER] if IS_ROOT else [None]
HARMLESS = (
    "connect_to_unix_socket",
    "connect_to_abstract_socket",
    "connect_with_tcp",
    "send_with_udp",
    "change_mode",
    "append_to_file",
    "run_program",
    "fork",
    "chmod",
    "clone as fork",
    "memfd_create",
    "open for writing",
    "pidfd_open",
    "socket 1 1",
)
READING = {"read", "list"}  # the first words of probes that read files


@dataclass(frozen=True, slots=True)
class Ground:
    """A folder with a spider that every user can reach, and what the spider would like to get at."""

    folder: Path
    home: Path

    @property
    def spider(self) -> Path:
        return self.folder / "probing_spider.py"

    def run(
        self,
        *paths: str,
        lacking: str = "",
        uid: int | None = None,
        mode: str = "prefer",
        spider: Path | None = None,
        visible: str = "",
    ) -> dict[str, Any]:
        """Parse pages in a separate process that lacks some system calls; return what it prints."""
        command = [
            sys.executable,
            "-m",
            "tests.adversary.sandbox.parse_pages",
            str(spider or self.spider),
            mode,
        ]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.adversary.sandbox.without",
                lacking,
                str(uid or ""),
                *command,
                *paths,
            ],
            cwd=ROOT,
            env={
                **surroundings(),
                "HOME": str(self.home),
                "PROBE_SECRET": "hunter2",
                "PROBE_VISIBLE": visible,
                "PROBE_STORE": str(self.folder / "shoal-data"),
                "PROBE_READABLE": str(self.home / "extra"),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def choose(self, *probes: str) -> None:
        """Run these probes only."""
        self.write_facts(**{**json.loads((self.folder / "probes.json").read_text()), "only": probes})

    def write_facts(self, **facts: object) -> None:
        (self.folder / "probes.json").write_text(json.dumps(facts))


@pytest.fixture
def ground() -> Iterator[Ground]:
    base = Path(mkdtemp(prefix="shoal-sandbox-test-"))
    folder, home = base / "spiders", base / "home"
    with ExitStack() as stack:
        stack.callback(rmtree, base)
        for path in (folder, folder / "shoal-data", home, home / "extra"):
            path.mkdir()
        secrets = [
            folder / "shoal-data" / "store.db",
            folder / ".env",
            folder / "shoal.toml",
            home / "diary.txt",
        ]
        own, victim = folder / "own.txt", folder / "victim"
        for path in (*secrets, own, victim, home / "extra" / "table.json"):
            path.write_text("{}")
        copy(HERE / "probing_spider.py", folder)
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        listeners[0].bind(str(folder / "server.sock"))
        listeners[1].bind(f"\0{base.name}")
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for listener in listeners:
            listener.listen()
        made = Ground(folder, home)
        made.write_facts(
            unix_socket=str(folder / "server.sock"),
            abstract_socket=base.name,
            port=tcp.getsockname()[1],
            own_file=str(own),
            victim=str(victim),
            folder=str(folder),
            secrets=[
                *map(str, secrets),
                "/etc/shadow",
                "/etc/passwd",
                "/proc/1/environ",
                "/proc/1/cmdline",
                "/proc/self/environ",
            ],
            folders=[str(home), "/etc", "/proc", "/root", "/home"],
            only=[],
        )
        for path in (base, *base.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o666)
        (folder / "server.sock").chmod(0o777)
        (folder / "probes.json").chmod(0o666)
        if IS_ROOT:
            os.chown(folder, OTHER, OTHER)  # it may do there what it likes, if nothing but rights stops it
            os.chown(own, OTHER, OTHER)
        yield made


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    """Return the outcome of every probe, during the import and on a page."""
    [[both]] = answer["answers"][:1]
    return {f"{when}: {name}": outcome for when, probes in both.items() for name, outcome in probes.items()}


def not_refused(answer: dict[str, Any], *, reading: bool = True) -> dict[str, str]:
    """Return the probes that were not refused; without `reading`, of those that do not read files."""
    return {
        name: outcome
        for name, outcome in outcomes(answer).items()
        if outcome != "refused" and (reading or name.split(": ")[2].split()[0] not in READING)
    }


@pytest.mark.parametrize("uid", USERS)
@pytest.mark.parametrize("lacking", ["", "unshare"])
def test_with_seccomp_and_landlock_every_attack_is_refused(
    ground: Ground, lacking: str, uid: int | None
) -> None:
    answer = ground.run("probes", "i386", lacking=lacking, uid=uid, mode="require")

    assert len(outcomes(answer)) > 250
    assert not_refused(answer) == {}
    assert answer["warning"] == ""
    assert "SIGSYS" in answer["answers"][1], "a call of another architecture ends the process"
    assert (ground.folder / "victim").exists()
    assert {path.name for path in ground.folder.iterdir()} == {
        ".env", "own.txt", "probes.json", "probing_spider.py", "server.sock", "shoal-data", "shoal.toml", "victim"
    }  # fmt: skip


@pytest.mark.parametrize("uid", USERS)
@pytest.mark.parametrize("lacking", ["landlock", "unshare,landlock"])
def test_without_landlock_only_reading_is_left_and_must_be_accepted(
    ground: Ground, lacking: str, uid: int | None
) -> None:
    answer = ground.run("probes", "i386", lacking=lacking, uid=uid)
    refusal = ground.run("probes", lacking=lacking, uid=uid, mode="require")

    assert not_refused(answer, reading=False) == {}
    assert "SIGSYS" in answer["answers"][1]
    # Nothing of the worker itself can be read, not even as the same user.
    assert not [
        name
        for name in not_refused(answer)
        if "/proc/" in name and "/self/" not in name and "/1/" not in name
    ]
    if "reading" in answer["held"]:  # root became another user
        assert "refused" not in refusal
    else:
        assert "not kept from reading other files" in answer["warning"]
        assert "sandbox.incomplete" in answer["events"]
        assert "lacks reading" in refusal["refused"]
        assert "landlock_create_ruleset" in refusal["refused"]
        assert 'parse.sandbox = "prefer"' in refusal["refused"]


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_root_without_landlock_becomes_a_user_who_cannot_read_secrets(ground: Ground) -> None:
    for secret in (
        ground.folder / ".env",
        ground.folder / "shoal-data" / "store.db",
        ground.home / "diary.txt",
    ):
        secret.chmod(0o600)

    answer = ground.run("probes", lacking="unshare,landlock,public", mode="require")

    assert "user" in answer["held"]
    read = [name for name in not_refused(answer) if "read " in name]
    assert not [name for name in read if any(word in name for word in (".env", "store.db", "diary", "shadow", "environ"))
                and "/self/" not in name]  # fmt: skip
    assert not_refused(answer, reading=False) == {}


@pytest.mark.parametrize("uid", USERS)
def test_without_seccomp_a_spider_is_refused_or_warned_of(ground: Ground, uid: int | None) -> None:
    ground.choose("open_netlink_socket")
    refusal = ground.run("probes", lacking="seccomp", uid=uid, mode="require")
    answer = ground.run("probes", lacking="seccomp", uid=uid)

    assert "lacks writing, network, processes" in refusal["refused"]
    assert "using the network and Unix sockets" in answer["warning"]
    assert "sandbox.incomplete" in answer["events"]


def test_the_attacks_succeed_where_nothing_refuses_them(ground: Ground) -> None:
    ground.choose(*HARMLESS, f"read {ground.home / 'diary.txt'}")

    answer = ground.run("probes", mode="off")

    succeeded = {name for name, outcome in outcomes(answer).items() if outcome.startswith("SUCCEEDED")}
    assert succeeded == outcomes(answer).keys()
    assert answer["events"][:1] == ["sandbox.off"]
    assert "off" in answer["warning"]


HONEST = """
import asyncio, csv, dataclasses, datetime, json, locale, os, re, sqlite3, ssl, threading, uuid, zoneinfo
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import lxml.html, selectolax.lexbor
import dateutil.parser, msgspec, pydantic
import beside
import shoal

spider = shoal.Spider("honest", start="http://a.test/")
TABLE = json.loads((Path(__file__).parent / "data" / "table.json").read_text())

@spider.page()
def page(page):
    import decimal, xml.etree.ElementTree, html.parser, difflib, unicodedata  # late imports
    import email, hashlib, http.cookies, urllib.parse, gzip, zlib, statistics, tomllib
    import late
    with ThreadPoolExecutor(4) as threads:
        squares = list(threads.map(lambda n: n * n, range(20)))
    async def inner():
        await asyncio.sleep(0)
        return await asyncio.to_thread(sum, squares)
    if os.environ["PROBE_VISIBLE"] != "without landlock":  # then seccomp refuses every file
        with open(os.devnull, "w") as null:
            print("x", file=null)
    database = sqlite3.connect(":memory:")
    yield {
        "lxml": lxml.html.fromstring("<p>a<b>c</b></p>").text_content(),
        "selectolax": selectolax.lexbor.LexborHTMLParser("<p>a</p>").css_first("p").text(),
        "date": str(dateutil.parser.parse("1 May 2026").date()),
        "model": pydantic.create_model("Price", value=(float, ...))(value="1.5").value,
        "regex": re.findall(r"\\d+", "a1b22"),
        "sqlite": database.execute("select 1").fetchone()[0],
        "zone": datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).isoformat(),
        "squares": asyncio.run(inner()),
        "table": TABLE, "beside": beside.VALUE, "late": late.VALUE,
        "digest": hashlib.sha256(b"x").hexdigest()[:8],
        "uuid": len(str(uuid.uuid4())),
        "tls": ssl.create_default_context().verify_mode.name,
        "extra": json.loads(Path(os.environ["HOME"], "extra", "table.json").read_text()),
        "visible": os.environ["PROBE_VISIBLE"], "secret": os.environ.get("PROBE_SECRET"),
        "cores": bool(os.cpu_count()),
    }
"""


@pytest.mark.parametrize("uid", USERS)
@pytest.mark.parametrize("lacking", ["", "unshare,landlock"])
def test_an_honest_spider_notices_nothing(ground: Ground, lacking: str, uid: int | None) -> None:
    (ground.folder / "data").mkdir()
    (ground.folder / "data" / "table.json").write_text('{"rows": 3}')
    (ground.folder / "beside.py").write_text("VALUE = 1")
    (ground.folder / "late.py").write_text("VALUE = 2")
    spider = ground.folder / "honest.py"
    spider.write_text(HONEST)

    visible = "without landlock" if "landlock" in lacking else "with landlock"
    pages = ["page"] * sized(2, full=200)
    answer = ground.run(*pages, lacking=lacking, uid=uid, spider=spider, visible=visible)

    for items in answer["answers"]:
        assert isinstance(items, list), items
        [item] = items
        assert item["squares"] == sum(n * n for n in range(20))
        assert (item["lxml"], item["selectolax"], item["regex"]) == ("ac", "a", ["1", "22"])
        assert (item["table"], item["beside"], item["late"], item["extra"]) == ({"rows": 3}, 1, 2, {})
        assert (item["date"], item["model"]) == ("2026-05-01", 1.5)
        assert (item["visible"], item["secret"]) == (visible, None)
        assert item["zone"] == "2026-07-01T00:00:00+02:00"


# --- commands ----------------------------------------------------------------------------------------

NOTHING = "unshare,landlock,seccomp"
WARNING = "a spider is not kept from"


def launch(*arguments: str, lacking: str) -> list[str]:
    return [sys.executable, str(HERE / "without.py"), lacking, "", *SHOAL, *arguments]


def run(*arguments: str, lacking: str, cwd: Path, **env: str) -> Ran:
    done = subprocess.run(
        launch(*arguments, lacking=lacking),
        cwd=cwd,
        env=surroundings(env),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def start(*arguments: str, lacking: str, cwd: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        launch(*arguments, lacking=lacking), cwd=cwd, env=surroundings(env), stderr=subprocess.PIPE, text=True
    )


def test_a_crawl_without_a_sandbox_warns_at_its_start_and_its_end(tmp_path: Path) -> None:
    with open_shop(Shop(categories=1), latency=0.001) as shop:
        crawl = ("crawl", shop, *QUICK, "--max-pages", "3")
        loud = run(*crawl, lacking=NOTHING, cwd=tmp_path)
        told = run(*crawl, "--json", "--fresh", lacking=NOTHING, cwd=tmp_path)
        strict = run(*crawl, lacking=NOTHING, cwd=tmp_path, SHOAL_PARSE_SANDBOX="require")
        quiet = run(*crawl, "--fresh", lacking="", cwd=tmp_path, SHOAL_PARSE_SANDBOX="require")

    assert loud.code == 0
    assert f"WARNING: the sandbox is incomplete: {WARNING}" in loud.err
    assert f"WARNING: the sandbox is incomplete: {WARNING}" in loud.out
    assert WARNING in told.json["sandbox_warning"]
    assert strict.code == 1
    assert (
        "parse.sandbox: the sandbox of spiders lacks reading, writing, network, processes" in strict.complaint
    )
    assert quiet.code == 0
    assert "sandbox" not in quiet.out + quiet.err


async def test_a_worker_without_a_sandbox_does_not_start_unless_it_is_told_to(tmp_path: Path) -> None:
    async with valkey(tmp_path) as server:
        worker = ("worker", "--store", server.dsn)
        strict = run(*worker, "--until-done", lacking=NOTHING, cwd=tmp_path)
        with start(*worker, lacking=NOTHING, cwd=tmp_path, SHOAL_PARSE_SANDBOX="prefer") as accepted:
            try:
                status = await workers_of(server, tmp_path)
            finally:
                accepted.terminate()
                _, printed = accepted.communicate(timeout=60)

    assert strict.code == 1
    assert "lacks reading, writing, network, processes" in strict.complaint
    assert 'parse.sandbox = "prefer"' in strict.complaint
    assert status["sandbox"] == "incomplete: reading, writing, network, processes"
    assert "sandbox.incomplete" in printed


async def test_a_crawl_record_cannot_weaken_the_sandbox_of_a_worker(tmp_path: Path, ground: Ground) -> None:
    spider = tmp_path / "reader.py"
    secret = ground.home / "diary.txt"
    spider.write_text(
        "import shoal, os\nspider = shoal.Spider('reader')\n@spider.page()\ndef page(page):\n"
        f"    yield {{'environment': dict(os.environ), 'secret': open({str(secret)!r}).read()}}\n"
    )
    async with valkey(tmp_path) as server:
        with open_shop(Shop(categories=1), latency=0.001) as shop:
            weak = {
                "SHOAL_PARSE_SANDBOX": "off",
                "SHOAL_PARSE_READABLE": str(ground.home),
                "SHOAL_PARSE_ENVIRONMENT": "SHOAL_STORE",
                "SHOAL_STORE": server.dsn,
            }
            submitted = run("submit", str(spider), shop, *QUICK, lacking="", cwd=tmp_path, **weak)
            worked = run(
                "worker", "--until-done", "--allow-private", lacking="", cwd=tmp_path, SHOAL_STORE=server.dsn
            )
            letters = run("dlq", "list", "--json", lacking="", cwd=tmp_path, SHOAL_STORE=server.dsn)

    assert submitted.code == 0, submitted.err
    assert worked.code == 0, worked.err
    assert "PermissionError" in letters.out
    assert "Permission denied" in letters.out


async def workers_of(server: RedisServer, folder: Path) -> dict[str, Any]:
    """Wait for the heartbeat of the only worker, as `shoal status` shows it."""
    while True:
        await asyncio.sleep(0.1)
        status = shoal("status", "--json", cwd=folder, env={"SHOAL_STORE": server.dsn}).json
        if status["workers"]:
            worker: dict[str, Any] = status["workers"][0]
            return worker
