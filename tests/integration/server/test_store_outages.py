"""What runs beside a server outlives a store that is away for longer than a call is repeated."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.servers.redis import RedisServer, valkey

from shoal.engine.plan import Stop
from shoal.model.api.webhooks import NewWebhook
from shoal.model.configuration.crawl_definition import CrawlDefinition
from shoal.model.settings import CrawlSettings, Settings
from shoal.server.state.events import SnapshotFeed
from shoal.services.inspect.snapshots import open_snapshots
from shoal.services.live.sampler import LiveStore
from shoal.services.schedules import scheduler
from shoal.services.schedules.launch import LaunchRules
from shoal.services.schedules.manage import STATE, add_schedule
from shoal.services.schedules.serve import keep_scheduling
from shoal.services.webhooks import rules
from shoal.services.webhooks.deliver import WebhookLoop
from shoal.services.webhooks.manage import create_webhook, list_webhooks
from shoal.services.webhooks.records import store_events
from shoal.services.webhooks.rules import StoredWebhook, WebhookPosition, make_delivery
from shoal.stores.contract.schedules import RunState, Schedule, ScheduledRun, ScheduleState
from shoal.stores.open import open_store

PATIENCE_S = 0.2


async def until_logged(caplog: pytest.LogCaptureFixture, event: str, running: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(20):
        while not any(record.message == event for record in caplog.records):
            assert not running.done(), running.exception()
            await asyncio.sleep(0.05)


async def test_a_scheduler_goes_on_when_its_store_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "RETRY_S", 0.1)
    async with valkey(tmp_path / "valkey") as server:
        stop = Stop()
        dsn = f"{server.dsn}?patience_s={PATIENCE_S}"
        running = asyncio.create_task(keep_scheduling(dsn, LaunchRules(), stop))
        await asyncio.sleep(0.2)
        server.kill()
        await until_logged(caplog, "schedules.waiting", running)
        await server.begin()
        await asyncio.sleep(0.2)
        stop.drain.set()
        async with asyncio.timeout(10):
            await running


async def test_a_store_that_goes_away_during_a_delivery_does_not_end_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(rules, "FIRST_RETRY_S", 0.0)
    async with (
        valkey(tmp_path / "valkey", "--appendonly", "yes") as server,
        receiving_and_killing(server) as url,
    ):
        settings = Settings(
            store=f"{server.dsn}?patience_s={PATIENCE_S}", crawl=CrawlSettings(allow_private=True)
        )
        made = await create_webhook(settings, NewWebhook(name="hook", url=url, events=["crawl.finished"]))
        hook = StoredWebhook(
            name="hook", url=url, events=("crawl.finished",), secret="s", created_at=made.created_at
        )
        async with open_store(settings.store) as store:
            sent = make_delivery(hook, "crawl.finished", {"crawl": "a"}, "a", 1.0)
            packed = await store.api_records.get("p/hook")
            await store_events(store.api_records, "hook", [sent], packed, WebhookPosition())
        async with WebhookLoop.open(settings, every_s=0.05) as loop:
            running = asyncio.create_task(loop.run())
            await until_logged(caplog, "webhooks.waiting", running)
            await server.begin()
            async with asyncio.timeout(20):
                while (await list_webhooks(settings.store))[0].waiting:
                    assert not running.done(), running.exception()
                    await asyncio.sleep(0.1)
            running.cancel()


async def test_damaged_records_of_a_crawl_end_neither_schedules_nor_webhooks_nor_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with valkey(tmp_path / "valkey") as server:
        settings = Settings(store=server.dsn, crawl=CrawlSettings(allow_private=True))
        async with open_store(server.dsn, create=True) as store:
            await store.fleet.frontier.crawls.open("a")
            running = ScheduledRun(tick=1.0, state=RunState.RUNNING, crawl="a")
            one = Schedule(
                name="a", folder="", crawl=CrawlDefinition(spider="a.py"), every_s=1e6, created_at=1.0
            )
            await add_schedule(store.schedules, one)
            state = ScheduleState(cursor=1.0, runs=(running,))
            await store.schedules.swap(STATE + "a", None, msgspec.msgpack.encode(state))
        await create_webhook(
            settings, NewWebhook(name="hook", url="http://127.0.0.1/", events=["items"], crawl="a")
        )
        await server.ask("SET", "{shoal:03}:n:1", "damaged")
        hosts = LiveStore(server.dsn, settings.alerts).slow_hosts
        feed = SnapshotFeed(partial(open_snapshots, server.dsn, hosts), address="a", every_s=0.05)
        async with WebhookLoop.open(settings, every_s=0.05) as loop, asyncio.timeout(30):
            works = [keep_scheduling(server.dsn, LaunchRules()), loop.run(), feed.run()]
            tasks = [asyncio.create_task(work) for work in works]
            async with feed.listen() as snapshots:
                _, snapshot = await anext(snapshots)
                assert b'"problem":""' not in snapshot
            await until_logged(caplog, "webhooks.waiting", tasks[1])
            await until_logged(caplog, "schedules.waiting", tasks[0])
            assert [task for task in tasks if task.done()] == []
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def receiving_and_killing(store: RedisServer) -> AsyncIterator[str]:
    """Accept deliveries; the first one finds the store gone when it is accepted."""
    accepted = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        await reader.readuntil(b"\r\n\r\n")
        accepted += 1
        if accepted == 1:
            store.kill()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
