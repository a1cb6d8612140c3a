"""A spider that attacks from inside its parse process is refused by the kernel, on any kind of machine."""

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
from tests.e2e.command import SHOAL, surroundings

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
        """Parse pages in a process of its own that lacks some system calls; return what it prints."""
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
import msgspec
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
        assert (item["visible"], item["secret"]) == (visible, None)
        assert item["zone"] == "2026-07-01T00:00:00+02:00"


def command(*arguments: str, lacking: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, str(HERE / "without.py"), lacking, "", *SHOAL]
    return subprocess.run(
        [*launcher, *arguments],
        cwd=cwd,
        env=surroundings(env),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
