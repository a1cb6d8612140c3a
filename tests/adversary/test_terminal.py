"""Text of others on the terminal: every command, over stores whose names and texts try to control it."""

import ast
import json
import os
import re
import subprocess
import unicodedata
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import SHOAL, TIMEOUT, Ran, shoal, surroundings
from tests.servers.redis import valkey
from typer.core import TyperGroup

from shoal.cli.app import command
from shoal.frontier.contract import Frontier
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Settlement
from shoal.model.request import Link, Request
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat, OutputActivity
from shoal.stores.open import open_store

SOURCE = Path(__file__).parents[2] / "src" / "shoal"
FORGED = "FORGED finished: nothing to do"
HOSTILE = f"a\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.\u2066\u200b\ufeff\r\n{FORGED}\x00\x7f\u2028b"
ALLOWED = {"\n", " "}


def commands(group: TyperGroup, path: str = "") -> Iterator[str]:
    for name, inner in group.commands.items():
        if isinstance(inner, TyperGroup):
            yield from commands(inner, f"{path}{name} ")
        else:
            yield f"{path}{name}"


# What to type after a command. A command without an entry is typed without arguments and with one: add an entry if
# it can show more.
OTHER: list[Sequence[str]] = [(), (HOSTILE,)]
ARGUMENTS: dict[str, list[Sequence[str]]] = {
    "crawl": [(HOSTILE,), (f"https://{HOSTILE}/",), ("spider.py",), ("https://a.test/", "--crawl", HOSTILE)],
    "submit": [(HOSTILE,), ("https://a.test/", "--crawl", HOSTILE), ("https://a.test/", "--out", HOSTILE)],
    "worker": [("--roles", HOSTILE), ("--pools", HOSTILE), ("--allow-output", f"x://{HOSTILE}")],
    "fleet": [(HOSTILE,), ("spider.py", "-n", "1")],
    "status": [()],
    "top": [("--once",)],
    "verify": [(), ("--crawl", HOSTILE)],
    "trace": [("https://a.test/1",), (HOSTILE,)],
    "dlq list": [(), ("--crawl", HOSTILE), ("--class", HOSTILE)],
    "dlq show": [("https://a.test/1",), (HOSTILE,)],
    "dlq export": [()],
    "dlq replay": [(), ("--host", HOSTILE, "--yes")],
    "dlq purge": [(), ("--host", HOSTILE, "--yes")],
    "host show": [("a.test",), (HOSTILE,)],
    "host set-rate": [("a.test", HOSTILE), (HOSTILE, "1")],
    "host pause": [(HOSTILE,)],
    "host resume": [(HOSTILE,)],
    "host block": [(HOSTILE,)],
    "plan": [(), ("--crawl", HOSTILE)],
    "pause": [(), (HOSTILE,)],
    "resume": [(), (HOSTILE,)],
    "reparse": [("spider.py", "--crawl", HOSTILE), (HOSTILE,)],
    "export": [("--crawl", HOSTILE, "--out", "-"), ("--out", HOSTILE)],
    "schedule run": [("--once",)],
    "serve": [
        ("--listen", HOSTILE),
        ("--listen", "0", "--spiders", HOSTILE),
        (HOSTILE,),
    ],  # without, it never ends
    "shell": [("page.html",), (HOSTILE,)],
    "doctor": [()],
    "init": [("a\x1b[2J\u202e",)],
    "demo": [("--config", HOSTILE)],
    "delete": [(HOSTILE,), (HOSTILE, "--yes")],
    "forget": [(HOSTILE,)],
}


STORELESS = {"crawl", "worker", "fleet", "shell", "doctor", "init", "demo"}  # print nothing of a store
SHOWN = {"status", "verify", "dlq list", "plan", "pause", "resume"}  # commands that print the crawl's name


def forbidden(text: str) -> set[str]:
    return {one for one in text if not one.isprintable() and one not in ALLOWED}


def assert_harmless(ran: Ran, typed: Sequence[str]) -> None:
    for text in (ran.out, ran.err):
        assert not forbidden(text), (typed, text)
        assert not re.search(rf"^{FORGED}", text, re.MULTILINE), (typed, text)
    assert ran.code != 70, (typed, ran.err)


async def fill(frontier: Frontier) -> None:
    """Make a crawl with a hostile name, and requests with hostile headers, data and reasons."""
    await frontier.crawls.open(HOSTILE)
    requests = [
        Request(
            url=f"https://a.test/{number}",
            headers={"X": HOSTILE, HOSTILE: "x"},
            data={"k": HOSTILE},
            route=HOSTILE,
        )
        for number in range(3)
    ]
    await frontier.add(HOSTILE, [Link.to(request) for request in requests])
    grant = await frontier.lease(holder=HOSTILE, limit=1, ttl=60.0)
    for lease in grant.leases:
        failure = Failure(FailureClass.PARSE_ERROR, HOSTILE, status=200)
        await frontier.settle([Settlement(lease, Dead(failure))])


@asynccontextmanager
async def hostile_folder(tmp_path: Path) -> AsyncIterator[str]:
    dsn = str(tmp_path / "store")
    async with open_store(dsn, create=True) as store, store.work() as owned:
        await fill(owned.frontier)
    yield dsn


@asynccontextmanager
async def hostile_server(tmp_path: Path) -> AsyncIterator[str]:
    async with valkey(tmp_path / "server") as server:
        async with open_store(server.dsn, create=True) as store:
            await fill(store.fleet.frontier)
            await store.fleet.workers.beat(
                Heartbeat(
                    worker=HOSTILE,
                    host=HOSTILE,
                    pid=1,
                    roles=(HOSTILE, "fetch"),
                    pools=(HOSTILE,),
                    shoal=HOSTILE,
                    started_at=0.0,
                    beaten_at=0.0,
                    doing=HOSTILE,
                    why=HOSTILE,
                    crawls=(CrawlActivity(HOSTILE, HOSTILE, 1, 1, 1.0),),
                    outputs=(OutputActivity(HOSTILE, HOSTILE, "refused", HOSTILE),),
                    refused={HOSTILE: HOSTILE},
                )
            )
        yield server.dsn


JSON_LINES = {"urls"}  # that print one object per line

SPIDER = f"""
import shoal
raise ValueError({HOSTILE!r})
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [hostile_folder, hostile_server])
async def test_no_command_lets_text_of_others_control_the_terminal(kind: Any, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "spider.py").write_text(SPIDER)
    (folder / "page.html").write_text(f"<title>{HOSTILE}</title>")
    known = set(commands(command()))
    assert ARGUMENTS.keys() <= known
    async with kind(tmp_path) as dsn:
        for name in sorted(known if kind is hostile_folder else known - STORELESS):
            for arguments in ARGUMENTS.get(name, OTHER):
                for more in ((), ("--json",)) if not arguments else ((),):
                    typed = (*name.split(), *arguments, *more)
                    if "\0" in "".join(typed):  # no argument of a process can have one
                        typed = tuple(one.replace("\0", "") for one in typed)
                    ran = shoal(*typed, cwd=folder, env={"SHOAL_STORE": dsn, "SHOAL_DEBUG": ""})
                    assert_harmless(ran, typed)
                    if name in SHOWN and not arguments and not more:
                        assert "\\x1b]0;owned" in ran.out + ran.err, typed  # the test shows something
                    if more and ran.out:
                        assert ran.out.isascii()
                        lines = ran.out.splitlines()
                        assert len(lines) == 1 or name in JSON_LINES, typed
                        for line in lines:
                            json.loads(line)


@pytest.mark.timeout(120)
async def test_a_live_screen_shows_hostile_names_in_printable_form(tmp_path: Path) -> None:
    """On a terminal, `shoal top` writes its escape sequences: those of the names must not be among them."""
    async with hostile_folder(tmp_path) as dsn:
        parent, child = os.openpty()
        env = surroundings({"SHOAL_STORE": dsn, "TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"})
        with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs
            [*SHOAL, "top"],
            cwd=tmp_path,
            env=env,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        ) as top:
            os.close(child)
            shown = b""
            try:
                while b"\\x1b]0;owned" not in shown and len(shown) < 1 << 20:
                    shown += os.read(parent, 1 << 16)
            finally:
                top.terminate()
                top.wait(TIMEOUT)
                os.close(parent)
    text = shown.decode()
    assert "\x1b]0;" not in text
    assert "\x9b" not in text
    assert not {one for one in text if unicodedata.category(one) == "Cf"}


@pytest.mark.parametrize(
    "option", ["--crawl", "--store", "--config", "--out", "--follow", "--item", "--seeds"]
)
def test_an_argument_that_is_not_utf_8_is_one_line_and_exit_code_1(option: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*SHOAL, "crawl", "https://a.test/", option, b"\xff\xfe\xed\xa0\x80"],
        cwd=tmp_path,
        env=surroundings(),
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.decode().count("\n") == 1
    assert not forbidden(done.stderr.decode())


# The one place for each way to write to a terminal.
WRITERS = {
    "print": {
        "cli/views/output.py",
        "cli/views/display.py",
        "cli/input/confirm.py",
        "python_api/progress.py",
    },
    "Console": {"cli/views/streams.py"},
    # help and version of this program
    "echo": {
        "cli/app.py",
        "cli/commands/control/dlq.py",
        "cli/commands/control/host.py",
        "cli/commands/control/proxy.py",
        "cli/commands/control/schedule.py",
        "cli/commands/control/token.py",
    },
    "input": set[str](),
}


def test_only_a_few_places_write_to_the_terminal() -> None:
    found: dict[str, set[str]] = {name: set() for name in WRITERS}
    for module in sorted(SOURCE.rglob("*.py")):
        if "templates" in module.parts:
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if called in found:
                    found[called].add(str(module.relative_to(SOURCE)))
    assert {name: places - WRITERS[name] for name, places in found.items()} == {
        name: set() for name in WRITERS
    }
