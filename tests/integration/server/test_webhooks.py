"""Webhooks against a real receiver: signed, tried again, neither lost nor doubled by restarts."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.e2e.command import shoal
from tests.servers.redis import valkey

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.model.api.webhooks import NewWebhook
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, Settings
from shoal.services.remote.items import find_output
from shoal.services.webhooks import deliver, rules
from shoal.services.webhooks.deliver import WebhookLoop
from shoal.services.webhooks.manage import create_webhook, delete_webhook, list_webhooks
from shoal.services.webhooks.records import CLAIM, POSITION, store_events
from shoal.services.webhooks.rules import StoredWebhook, WebhookPosition, make_delivery
from shoal.stores.open import open_store


@dataclass
class Receiver:
    url: str = ""
    status: int = 200
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = [line.partition(":") for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        body = await reader.readexactly(int(headers["content-length"]))
        self.got.append((headers, body))
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(body) for _, body in self.got]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
    async with server:
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        yield receiver


@asynccontextmanager
async def in_folder(folder: Path) -> AsyncIterator[str]:
    yield str(folder / "store")


@asynccontextmanager
async def in_fleet(folder: Path) -> AsyncIterator[str]:
    async with valkey(folder / "valkey") as server:
        yield server.dsn


@pytest.fixture(params=[in_folder, in_fleet], ids=["folder", "fleet"])
async def private(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Settings]:
    async with request.param(tmp_path) as store:
        yield Settings(store=store, crawl=CrawlSettings(allow_private=True))


async def crawl(settings: Settings, folder: Path) -> None:
    """Crawl ten pages of a shop to the end."""
    with open_shop(Shop(categories=1), latency=0.001) as shop:
        fleet = "://" in settings.store
        flags = (
            "--allow-private",
            "--rate=0",
            "--crawl=shop",
            "--max-pages=10",
            "--quiet",
            f"--store={settings.store}",
        )
        commands = [["submit" if fleet else "crawl", shop, *flags]]
        commands += (
            [["worker", f"--store={settings.store}", "--allow-private", "--until-done", "--quiet"]]
            if fleet
            else []
        )
        for command in commands:
            ran = await asyncio.to_thread(shoal, *command, cwd=folder)
            assert ran.code == 0, ran.err


async def expire_claim(store: str) -> None:
    """Do what time does when a server was killed."""
    async with open_store(store) as opened:
        records = opened.api_records
        await records.swap(CLAIM, await records.get(CLAIM), None)


async def test_events_are_signed_and_survive_a_receiver_and_a_server_that_fail(
    private: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules, "FIRST_RETRY_S", 0.0)
    async with receiving() as receiver:
        made = await create_webhook(
            private,
            NewWebhook(name="hook", url=receiver.url, events=["crawl.finished", "items"], crawl="shop"),
        )
        await crawl(private, tmp_path)
        receiver.status = 500
        async with WebhookLoop.open(private) as loop:
            assert await loop.run_once() == 0
        failed = {body["id"] for body in receiver.bodies()}
        [known] = await list_webhooks(private.store)
        assert (known.waiting, known.problem, known.secret) == (2, "status 500", "")

        receiver.status = 200
        for _ in range(3):  # each time another process
            async with WebhookLoop.open(private) as loop:
                await expire_claim(private.store)
                await loop.run_once()
        accepted = receiver.bodies()[len(failed) :]
        assert sorted(body["event"] for body in accepted) == ["crawl.finished", "items"]
        assert {body["id"] for body in accepted} == failed
        [items] = [body for body in accepted if body["event"] == "items"]
        assert len(items["items"]) in (9, 10)  # a page that has moved brings none
        for headers, body in receiver.got:
            signed = headers["shoal-timestamp"].encode() + b"." + body
            wanted = hmac.new(made.secret.encode(), signed, hashlib.sha256).hexdigest()
            assert headers["shoal-signature"] == f"v1={wanted}"
            assert headers["shoal-delivery"] == msgspec.json.decode(body)["id"]
        [known] = await list_webhooks(private.store)
        assert (known.waiting, known.delivered, known.dropped) == (0, 2, 0)
        await delete_webhook(private.store, "hook")
        assert await list_webhooks(private.store) == []


async def test_a_receiver_that_never_answers_delays_no_other_one(private: Settings, tmp_path: Path) -> None:
    connected: set[asyncio.StreamWriter] = set()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.add(writer)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        connected.discard(writer)

    silent = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    async with silent, receiving() as receiver:
        await crawl(private, tmp_path)
        address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"
        for name, url in (("dead", address), ("live", receiver.url)):
            await create_webhook(private, NewWebhook(name=name, url=url, events=["alert.raised"]))
        await add_deliveries(private.store, "dead", 40)
        async with WebhookLoop.open(private, every_s=0.01) as loop, asyncio.TaskGroup() as group:
            running = group.create_task(loop.run())
            for number in range(3):  # each in a later round, while the first one still waits for its answer
                await add_deliveries(private.store, "live", 1, first=number)
                await eventually(lambda wanted=number: wanted in numbers(receiver))  # type: ignore[misc]
            running.cancel()
        await eventually(lambda: not connected)
    assert numbers(receiver) == [0, 1, 2]


def numbers(receiver: Receiver) -> list[int]:
    """Return the numbers of the deliveries that were added by hand."""
    return [body["n"] for body in receiver.bodies() if "n" in body]


async def add_deliveries(store: str, webhook: str, count: int, *, first: int = 0) -> None:
    async with open_store(store) as opened:
        records = opened.api_records
        packed = await records.get(POSITION + webhook)
        position = (
            WebhookPosition() if packed is None else msgspec.msgpack.decode(packed, type=WebhookPosition)
        )
        stored = StoredWebhook(name=webhook, url="", events=("alert.raised",), secret="", created_at=0.0)
        made = [
            make_delivery(stored, "alert.raised", {"n": n}, f"{webhook}/{n}", 0.0)
            for n in range(first, first + count)
        ]
        await store_events(records, webhook, made, packed, position)


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not become true within 30 seconds")


async def test_of_two_servers_one_delivers(private: Settings, tmp_path: Path) -> None:
    async with receiving() as receiver:
        await create_webhook(private, NewWebhook(name="hook", url=receiver.url, events=["crawl.finished"]))
        await crawl(private, tmp_path)
        async with WebhookLoop.open(private) as one, WebhookLoop.open(private) as two:
            await asyncio.gather(one.run_once(), two.run_once())
            await asyncio.gather(one.run_once(), two.run_once())
        assert [body["event"] for body in receiver.bodies()] == ["crawl.finished"]


async def test_a_generation_that_replaces_the_output_is_sent_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a receiver that was down: what waits for it is bounded, and the output has the rest."""
    monkeypatch.setattr(rules, "FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(deliver, "ITEMS_PER_BATCH", 1)
    settings = Settings(store=str(tmp_path / "store"), crawl=CrawlSettings(allow_private=True))
    async with receiving() as receiver, WebhookLoop.open(settings) as loop:
        hook = NewWebhook(name="hook", url=receiver.url, events=["items"], crawl="shop")
        await create_webhook(settings, hook)
        await crawl(settings, tmp_path)
        receiver.status = 500
        for _ in range(deliver.MAX_ITEM_BATCHES + 1):
            await loop.run_once()
        [known] = await list_webhooks(settings.store)
        assert known.waiting == deliver.MAX_ITEM_BATCHES

        receiver.status, receiver.got = 200, []
        while await loop.run_once():
            pass
        first = {body["id"]: item["url"] for body in receiver.bodies() for item in body["items"]}
        assert len(set(first.values())) == len(first) in (9, 10)

        output = Path(await find_output(settings.store, "shop", allowed=()))
        draft = output.with_name("draft")
        draft.write_bytes(b"".join(output.read_bytes().splitlines(keepends=True)[:4]))  # noqa: ASYNC240
        draft.replace(output)  # what the end of a generation does
        receiver.got = []
        while await loop.run_once():
            pass
        second = {body["id"]: item["url"] for body in receiver.bodies() for item in body["items"]}
        assert len(second) == 4
        assert not first.keys() & second.keys()


async def test_the_address_of_a_webhook_needs_no_canonical_form(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "store"), crawl=CrawlSettings(allow_private=True))
    async with receiving() as receiver, WebhookLoop.open(settings) as loop:
        typed = receiver.url.removesuffix("/hook").replace("http", "HTTP")
        await create_webhook(settings, NewWebhook(name="hook", url=typed, events=["crawl.finished"]))
        async with open_store(settings.store, create=True) as store, store.work():
            hook = StoredWebhook(name="hook", url="", events=(), secret="", created_at=1.0)
            sent = make_delivery(hook, "crawl.finished", {"crawl": "a"}, "a", 1.0)
            packed = await store.api_records.get(POSITION + "hook")
            await store_events(store.api_records, "hook", [sent], packed, WebhookPosition())
        assert await loop.run_once() == 1
    assert len(receiver.got) == 1


async def test_a_webhook_of_the_same_name_changes_nothing(private: Settings) -> None:
    hook = NewWebhook(name="hook", url="http://127.0.0.1/", events=["crawl.finished"])
    await create_webhook(private, hook)
    async with open_store(private.store, create=True) as store:
        packed = await store.api_records.get(POSITION + "hook")
        await store_events(store.api_records, "hook", [], packed, WebhookPosition(delivered=1))
    with pytest.raises(Misconfigured):
        await create_webhook(private, hook)
    [known] = await list_webhooks(private.store)
    assert known.delivered == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://169.254.169.254/", "file:///etc/passwd", "http://u:p@a.test/"])  # fmt: skip
async def test_an_address_that_the_guard_refuses_cannot_be_a_webhook(url: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        await create_webhook(
            Settings(store=str(tmp_path / "store")), NewWebhook(name="x", url=url, events=["crawl.finished"])
        )
