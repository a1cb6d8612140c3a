"""What every command prints with `--json`, by its shape, in a folder and in a fleet: it changes on purpose only.

The answers of the HTTP API have types, and their shapes are the OpenAPI document.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.e2e.command import HASTY, NO_RETRIES, PRIVATE, QUICK, shoal
from tests.e2e.shape import FOLDER, Shape, check_shape, fits, shape_of, write_json
from tests.servers.redis import valkey

from shoal.cli.main import run
from shoal.server.http.openapi import openapi_document
from shoal.server.routes.table import ROUTES

SPIDER = """\
import shoal
spider = shoal.Spider("shop", start=[{shop!r}])

@spider.page(r"/product/[a-h]")
def broken(page):
    raise ValueError("broken")

@spider.page()
def page(page):
    yield {{"title": page.css("h1::text").get()}}
    yield from page.links()
"""
# In this order: some of them change the store.
COMMANDS = {
    "status": ("status",),
    "top": ("top",),
    "alerts": ("alerts",),
    "doctor": ("doctor",),
    "plan": ("plan",),
    "verify": ("verify",),
    "urls": ("urls",),
    "trace": ("trace", "{broken}"),
    "dlq-list": ("dlq", "list"),
    "dlq-show": ("dlq", "show", "{broken}"),
    "host-show": ("host", "show", "{host}"),
    "host-pause": ("host", "pause", "{host}", "--for", "60s"),
    "host-resume": ("host", "resume", "{host}"),
    "host-set-rate": ("host", "set-rate", "{host}", "9"),
    "proxy-list": ("proxy", "list"),
    "schedule-list": ("schedule", "list"),
    "token-add": ("token", "add", "reader", "--role", "read"),
    "token-list": ("token", "list"),
    "report": ("report",),
    "sql": ("sql", "select status, count(*) as pages from attempts group by 1"),
    "graph": ("graph",),
    "export": ("export", "--out", "again.csv"),
    "diff": ("diff",),
    "reparse": ("reparse", "shop.py"),
    "release": ("release", "shop"),
    "pause": ("pause",),
    "resume": ("resume",),
    "dlq-replay": ("dlq", "replay", "--yes"),
    "dlq-purge": ("dlq", "purge", "--yes"),
    "delete": ("delete", "shop", "--yes"),
}
SCHEDULE = ("schedule", "add", "nightly", "--cron", "0 3 * * *", "--", "shop.py", "--out", "nightly.jsonl")
LINES = {"urls", "sql"}  # print an object per line


@asynccontextmanager
async def a_folder(folder: Path) -> AsyncIterator[str]:
    yield str(folder / "work" / "shoal-data")


@asynccontextmanager
async def a_fleet(folder: Path) -> AsyncIterator[str]:
    async with valkey(folder / "server") as server:
        yield server.dsn


STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[str]]] = {"folder": a_folder, "fleet": a_fleet}


@pytest.mark.slow("runs every command once")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", STORES)
async def test_what_commands_print_as_json_keeps_its_shape(
    kind: str, tmp_path: Path, shop: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    work, host = tmp_path / "work", shop.split("/")[2]
    work.mkdir()
    (work / "shop.py").write_text(SPIDER.format(shop=shop))
    async with STORES[kind](tmp_path) as store:
        environment = {"SHOAL_STORE": store, **PRIVATE, **HASTY, **NO_RETRIES, "SHOAL_RECRAWL_KEEP": "2"}
        crawl = ("crawl", "shop.py", *QUICK, "--out", "items.jsonl", "--json")
        for again in ((), ("--again",)):
            ran = shoal(*crawl, *again, cwd=work, env=environment)
            assert ran.code == 0, ran.err
            check_shape(f"{kind}-crawl", json.loads(ran.out))
        monkeypatch.chdir(work)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert await asyncio.to_thread(run, SCHEDULE) == 0
        capfd.readouterr()
        named = {"host": host, "broken": ""}
        for name, command in COMMANDS.items():
            code = await asyncio.to_thread(run, (*(word.format(**named) for word in command), "--json"))
            out, err = capfd.readouterr()
            assert code in (0, 2, 5), (command, code, out, err)
            lines = [json.loads(line) for line in out.splitlines()]
            check_shape(f"{kind}-{name}", lines if name in LINES else one(lines))
            if name == "urls":
                named["broken"] = next(line["url"] for line in lines if line["state"] == "dead")


@pytest.mark.parametrize(
    ("found", "known", "is_known"),
    [
        ({"a": "number"}, {"a": "null|number", "b?": "text"}, True),
        ({"a": "number"}, {"a": "number", "b": "text"}, False),
        ({"a": "number", "c": "text"}, {"a": "number"}, False),
        ({"a": "text"}, {"a": "number"}, False),
        ({"a": "null"}, {"a": {"b": "text"}}, False),
        ({"a": "null"}, {"a": {"b": "text", "|null": "null"}}, True),
        ([{"a": "text"}], [], True),
        ([{"a": "text"}], [{"a": "number"}], False),
        (shape_of({"x.test": 1, "y.test": None}), {"*": "null|number"}, True),
    ],
)
def test_a_shape_that_was_not_seen_before_is_noticed(found: Shape, known: Shape, is_known: bool) -> None:
    assert fits(found, known) is is_known


def one(lines: list[Any]) -> Any:
    [line] = lines
    return line


def test_the_openapi_document_changes_on_purpose_only() -> None:
    file = FOLDER / "openapi.json"
    document = openapi_document(ROUTES)
    document["info"]["version"] = ""
    if os.environ.get("SHAPES") == "write":
        write_json(file, document)
    known = msgspec.json.decode(file.read_bytes())
    made = msgspec.json.decode(msgspec.json.encode(document))
    assert made["paths"].keys() == known["paths"].keys()
    changed = [path for path in made["paths"] if made["paths"][path] != known["paths"][path]]
    changed += [
        name
        for name, schema in made["components"]["schemas"].items()
        if known["components"]["schemas"].get(name) != schema
    ]
    assert not changed, f"the API is another one: {changed}; if that is meant: SHAPES=write"
    assert made == known
