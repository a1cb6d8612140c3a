"""The loop that detects events and sends deliveries. Of several servers of a store, one does it at a time."""

import asyncio
import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from shoal.engine.fetchers import ca_file_of, nameservers_of
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.model.api.problem import ApiError
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import DataFault, ShoalError, leaves
from shoal.model.failure import Failure
from shoal.model.page import Response
from shoal.model.settings import Settings
from shoal.services.alerts.read import read_alerts
from shoal.services.inspect.finished import has_finished
from shoal.services.remote.items import Position, continue_reading, find_output, read_items
from shoal.services.webhooks.records import (
    CLAIM,
    DELIVERY,
    MAX_PENDING,
    POSITION,
    WEBHOOK,
    read_all,
    read_one,
    store_events,
)
from shoal.services.webhooks.rules import (
    SeenCrawl,
    SeenStore,
    StoredWebhook,
    WebhookDelivery,
    WebhookPosition,
    after_failure,
    detect,
    make_delivery,
    signature,
)
from shoal.stores.contract.api_records import ApiRecords
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store, store_exists

log = logging.getLogger(__name__)

EVERY_S = 2.0
SHARE = 0.1  # of the time may be spent on reading the store
CLAIM_S = 60.0
AT_ONCE = 8
SEND_TIMEOUT_S = 15.0
PER_ROUND = 16  # deliveries: none of them may take longer than the claim
ITEMS_PER_BATCH = 100
MAX_ITEM_BATCHES = 8  # that wait for one webhook; the output has the others
USER_AGENT = "Shoal-Webhook"


class _Claim(msgspec.Struct, frozen=True):
    holder: str
    until: float


class WebhookLoop:
    def __init__(self, settings: Settings, client: HttpClient, *, every_s: float = EVERY_S) -> None:
        self._settings = settings
        self._client = client
        self._every_s = every_s
        self._holder = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(4)}"

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, *, every_s: float = EVERY_S) -> AsyncIterator["WebhookLoop"]:
        guard = Guard(address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private))
        async with (
            DnsResolver(
                nameservers=nameservers_of(settings.crawl), timeout=settings.fetch.connect
            ) as resolver,
            HttpClient(resolver, guard, ca_file=ca_file_of(settings.crawl)) as client,
        ):
            yield cls(settings, client, every_s=every_s)

    async def run(self) -> None:
        """Detect and deliver until cancelled. A store that does not answer is asked again."""
        while True:
            began = time.monotonic()
            try:
                await self.run_once()
            except* (ShoalError, DataFault, TimeoutError, OSError) as several:
                why = str(next(leaves(several)))
                log.warning("webhooks.waiting", extra={"why": why})
            took = time.monotonic() - began
            await asyncio.sleep(max(self._every_s, took / SHARE - took))

    async def run_once(self) -> int:
        """Detect events, then send what is due; return how many deliveries were accepted."""
        if not store_exists(self._settings.store):
            return 0
        async with open_store(self._settings.store) as store:
            records = store.api_records
            stored = await records.all()
            webhooks = read_all(stored, WEBHOOK, StoredWebhook)
            if not webhooks or not await self._claim(records, stored.get(CLAIM)):
                return 0
            pending = read_all(stored, DELIVERY, WebhookDelivery).values()
            if len(pending) < MAX_PENDING:
                seen = await look_at_store(store)
                batches = Counter(one.webhook for one in pending if one.event == "items")
                for webhook in webhooks.values():
                    more_items = batches[webhook.name] < MAX_ITEM_BATCHES
                    await self._detect(records, webhook, stored, seen, more_items=more_items)
            return await self._send_due(records, {one.name: one for one in webhooks.values()})

    async def _claim(self, records: ApiRecords, packed: bytes | None) -> bool:
        """Return whether this process delivers now; another one does while it renews its claim."""
        now, claim = time.time(), read_one(packed, _Claim)
        if claim is not None and claim.holder != self._holder and now < claim.until <= now + CLAIM_S:
            return False
        return await records.swap(CLAIM, packed, msgspec.msgpack.encode(_Claim(self._holder, now + CLAIM_S)))

    async def _detect(
        self,
        records: ApiRecords,
        webhook: StoredWebhook,
        stored: Mapping[str, bytes],
        seen: SeenStore,
        *,
        more_items: bool,
    ) -> None:
        packed = stored.get(POSITION + webhook.name)
        position = read_one(packed, WebhookPosition) or WebhookPosition()
        found = detect(webhook, position, seen, time.time())
        deliveries, after = list(found.deliveries), found.position
        if more_items and "items" in webhook.events and webhook.crawl in seen.crawls:
            batch, after = await self._items(webhook, after)
            deliveries += batch
        if after != position:
            await store_events(records, webhook.name, deliveries, packed, after)

    async def _items(
        self, webhook: StoredWebhook, position: WebhookPosition
    ) -> tuple[list[WebhookDelivery], WebhookPosition]:
        """Return the next items of a crawl as a delivery, and the position behind them."""
        crawl = webhook.crawl
        with suppress(ShoalError, ApiError, OSError):  # there is no output yet, or it is just being replaced
            allowed = self._settings.worker.allow_outputs
            output = await find_output(self._settings.store, crawl, allowed=allowed)
            file, begin = await asyncio.to_thread(
                continue_reading, output, position.item_file, position.item_offset
            )
            page = await read_items(output, Position(begin), newest=False, contains="", limit=ITEMS_PER_BATCH)
            if page.items:
                fields = {"crawl": crawl, "items": page.items}
                subject = f"{crawl}/{file}/{begin}-{page.read_to}"
                made = make_delivery(webhook, "items", fields, subject, time.time())
                after = msgspec.structs.replace(position, item_offset=page.read_to, item_file=file)
                return [made], after
        return [], position

    async def _send_due(self, records: ApiRecords, webhooks: Mapping[str, StoredWebhook]) -> int:
        now = time.time()
        stored = await records.all()
        due = [
            (key, one)
            for key, one in read_all(stored, DELIVERY, WebhookDelivery).items()
            if one.next_at <= now and one.webhook in webhooks
        ]
        due.sort(key=lambda pair: pair[1].created_at)
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            sent = [
                group.create_task(self._send(records, key, stored[key], one, webhooks[one.webhook], room))
                for key, one in due[:PER_ROUND]
            ]
        return sum(task.result() for task in sent)

    async def _send(  # noqa: PLR0917 - one call
        self,
        records: ApiRecords,
        key: str,
        packed: bytes,
        delivery: WebhookDelivery,
        webhook: StoredWebhook,
        room: asyncio.Semaphore,
    ) -> bool:
        async with room:
            problem = await self._post(webhook, delivery)
        if not problem:
            await records.swap(key, packed, None)
            await self._count(records, webhook.name, delivered=1)
            return True
        again = after_failure(delivery, problem, time.time())
        if again is None:
            log.error(
                "webhook.dropped",
                extra={"webhook": webhook.name, "kind": delivery.event, "id": delivery.id, "why": problem},
            )
            await self._count(records, webhook.name, dropped=1)
        await records.swap(key, packed, None if again is None else msgspec.msgpack.encode(again))
        return False

    async def _post(self, webhook: StoredWebhook, delivery: WebhookDelivery) -> str:
        """Send a delivery; return why it was not accepted, empty if it was."""
        timestamp = f"{time.time():.0f}"
        headers = (
            ("User-Agent", USER_AGENT),
            ("Content-Type", "application/json"),
            ("Shoal-Event", delivery.event),
            ("Shoal-Delivery", delivery.id),
            ("Shoal-Timestamp", timestamp),
            ("Shoal-Signature", signature(webhook.secret, timestamp, delivery.body)),
        )
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                answer = await self._client.fetch(
                    webhook.url,
                    method="POST",
                    headers=headers,
                    body=delivery.body,
                    limits=self._settings.fetch,
                )
        except TimeoutError:
            return f"no answer after {SEND_TIMEOUT_S:g} seconds"
        if isinstance(answer, Response):
            return "" if 200 <= answer.status < 300 else f"status {answer.status}"
        return answer.reason if isinstance(answer, Failure) else "not sent"

    async def _count(self, records: ApiRecords, name: str, *, delivered: int = 0, dropped: int = 0) -> None:
        while True:
            packed = await records.get(POSITION + name)
            position = read_one(packed, WebhookPosition)
            if position is None:
                return
            counted = msgspec.structs.replace(
                position,
                delivered=position.delivered + delivered,
                dropped=position.dropped + dropped,
            )
            if await records.swap(POSITION + name, packed, msgspec.msgpack.encode(counted)):
                return


async def look_at_store(store: Store) -> SeenStore:
    """Read what events are detected from: which crawls have finished, and the alerts."""
    crawls = {}
    for name in await store.crawls.names():
        counts = await store.frontier.counts(name)
        began = float(await store.frontier.value(name, BEGAN) or 0.0)
        crawls[name] = SeenCrawl(counts.accepted, await has_finished(store, name), began)
    alerts = await read_alerts(store)
    return SeenStore(crawls, alerts.active, alerts.recent)
