"""Every command on every kind of store, as the user that the documentation makes, over TLS where there is one server;
and what each says of a store that is not there, or not open to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from docs.making.session import user_of_the_store
from tests.e2e.command import DONE, HASTY, NO_RETRIES, PAGES, PRIVATE, QUICK, shoal
from tests.servers.process import free_port
from tests.servers.redis import redis7, valkey
from tests.servers.shared import shared_cluster, shared_sentinels
from tests.site.certificates import make_authority

from shoal.cli.main import run

RULE = user_of_the_store()
RULE_7_0 = [word for word in RULE if word != "+waitaof"]  # as the page says: Redis 7.0 does not know it
USER, PASSWORD = RULE[2], RULE[4].removeprefix(">")


@asynccontextmanager
async def one_server(folder: Path) -> AsyncIterator[str]:
    authority = make_authority(folder.parent)
    certificate, key = authority.issue("IP:127.0.0.1")
    tls = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", authority.file)
    port = free_port()
    async with redis7(folder / "0", "--tls-port", str(port), "--tls-auth-clients", "no", *tls) as server:
        await server.ask(*RULE_7_0)
        yield f"rediss://{USER}:{PASSWORD}@127.0.0.1:{port}?ca_file={authority.file}"


@asynccontextmanager
async def with_sentinels(folder: Path) -> AsyncIterator[str]:
    async with shared_sentinels(folder) as fleet:
        for server in fleet.servers:
            await server.ask(*RULE_7_0)
        yield fleet.dsn.replace("://", f"://{USER}:{PASSWORD}@")


@asynccontextmanager
async def in_a_cluster(folder: Path) -> AsyncIterator[str]:
    async with shared_cluster(folder) as fleet:
        for server in fleet.servers:
            await server.ask(*RULE_7_0, "+cluster|slots")
        yield fleet.dsn.replace("://", f"://{USER}:{PASSWORD}@")


TYPES: dict[str, Callable[[Path], AbstractAsyncContextManager[str]]] = {
    "one server, TLS": one_server,
    "sentinels": with_sentinels,
    "cluster": in_a_cluster,
}


class Typed:
    """Commands that only look or steer, in this process: starting one takes longer than what it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._environment = monkeypatch
        self._printed = capfd

    def store(self, dsn: str) -> None:
        self._environment.setenv("SHOAL_STORE", dsn)

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        ended = await asyncio.to_thread(run, arguments)
        out, err = self._printed.readouterr()
        assert PASSWORD not in out + err
        assert ended == code, (arguments, out, err)
        return out + err

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "--json"))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Typed(monkeypatch, capfd)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", TYPES)
async def test_every_command_works_on_every_kind_of_store_for_a_user_who_may_no_more_than_needed(
    kind: str, tmp_path: Path, shop: str, typed: Typed
) -> None:
    host = shop.split("/")[2]
    async with TYPES[kind](tmp_path / "servers") as dsn:
        typed.store(dsn)
        env = {"SHOAL_STORE": dsn, **PRIVATE, **HASTY, **NO_RETRIES}
        crawl = ("crawl", shop, *QUICK, "--crawl", "shop", "--out", "items.jsonl", "--max-pages", "1000")
        ran = shoal(*crawl, "--quiet", cwd=tmp_path / "work", env=env)
        assert (ran.code, PASSWORD in ran.err) == (0, False), ran.err

        status = await typed.json("status")
        [counted] = status["crawls"]
        assert (counted["counts"]["done"], counted["counts"]["dead"]) == (DONE - 1, 1)
        assert (await typed.json("top"))["crawls"][0]["accepted"] == counted["accepted"]
        [letter] = (await typed.json("dlq", "list"))["dead_letters"]
        assert (await typed.json("trace", letter["url"]))["traces"][0]["state"] == "dead"
        assert (await typed.json("dlq", "replay", "--yes"))["replayed"] == 1
        assert (await typed.json("host", "set-rate", host, "9"))["host"]["waiting"] == 1
        assert (await typed.json("pause"))["crawls"] == ["shop"]
        assert (await typed.json("status"))["crawls"][0]["paused"] is True
        assert (await typed.json("resume"))["paused"] is False
        assert (await typed.json("plan"))["hosts"] == 1
        assert (await typed.json("verify"))["ok"] is True
        assert (await typed.json("export", "--out", "pages.warc.gz"))["pages"] == DONE - 1
        assert (await typed.json("export", "--out", "items.csv"))["items"] == PAGES - 1
        assert "no difference" in await typed("reparse", shop)
        checks = {check["name"]: check["grade"] for check in (await typed.json("doctor"))["checks"]}
        assert checks["store"] == "ok"


LOOKING = [
    ("status",),
    ("top", "--once"),
    ("dlq", "list"),
    ("trace", "https://a.test/"),
    ("host", "show", "a.test"),
    ("pause",),
    ("resume",),
    ("verify",),
    ("plan",),
    ("export", "--out", "items.csv"),
    ("reparse", "https://a.test/"),
]


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel", "redis+cluster"])
async def test_a_store_that_is_not_there_is_said_to_be_unavailable(scheme: str, typed: Typed) -> None:
    service = "/mymaster" if scheme == "redis+sentinel" else ""
    typed.store(f"{scheme}://{USER}:{PASSWORD}@127.0.0.1:{free_port()}{service}?patience_s=0.1")

    for command in LOOKING:
        assert "127.0.0.1" in await typed(*command, code=4), command


async def test_a_store_with_another_password_or_without_what_was_meant_is_a_mistake(
    tmp_path: Path, typed: Typed
) -> None:
    async with valkey(tmp_path / "server") as server:
        await server.ask(*RULE)
        typed.store(f"redis://{USER}:no-{PASSWORD[::-1]}@{server.address}")
        for command in LOOKING:
            assert "rejects this user and password" in await typed(*command, code=1), command

        typed.store(f"redis://{USER}:{PASSWORD}@{server.address}?namespace=another")
        assert "does not allow this user" in await typed("status", code=1)

        typed.store(f"redis://{server.address}?namespace=another")
        assert "0 crawls" in await typed("status")
        for command in (
            ("pause", "books"),
            ("verify", "--crawl", "books"),
            ("dlq", "list", "--crawl", "books"),
        ):
            assert "no crawl named 'books'" in await typed(*command, code=1), command
        assert "none at all" in await typed("export", "--out", "items.csv", code=1)
        assert "never accepted" in await typed("trace", "https://a.test/", code=1)
