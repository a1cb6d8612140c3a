"""The loop that detects events and sends deliveries. Of several servers of a store, one does it at a time.

Each webhook has a queue, which a separate task sends for a few seconds: a receiver that never answers delays
no other one, and its time is not counted as that of the store.
"""

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
SEND_TIMEOUT_S = 15.0
PER_ROUND = 16  # deliveries of one webhook
QUEUE_S = 10.0  # after which the rest of a queue waits for the next round
ITEMS_PER_BATCH = 100
MAX_ITEM_BATCHES = 8  # that wait for one webhook; the output has the others
USER_AGENT = "Shoal-Webhook"
FAILURES = (ShoalError, DataFault, TimeoutError, OSError)  # of the store


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
        sending: dict[str, asyncio.Task[int]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                began = time.monotonic()
                try:
                    for name, webhook in (await self._detect_all()).items():
                        if name not in sending or sending[name].done():
                            sending[name] = group.create_task(self._send_queue(webhook), name="webhook.send")
                except* FAILURES as several:
                    _log_waiting(next(leaves(several)))
                took = time.monotonic() - began
                await asyncio.sleep(max(self._every_s, took / SHARE - took))

    async def run_once(self) -> int:
        """Detect events, then send what is due; return how many deliveries were accepted."""
        webhooks = await self._detect_all()
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(self._send_queue(webhook)) for webhook in webhooks.values()]
        return sum(task.result() for task in sent)

    async def _detect_all(self) -> Mapping[str, StoredWebhook]:
        """Store the deliveries of new events; return the webhooks whose deliveries this process sends."""
        if not store_exists(self._settings.store):
            return {}
        async with open_store(self._settings.store) as store:
            records = store.api_records
            stored = await records.all()
            webhooks = {one.name: one for one in read_all(stored, WEBHOOK, StoredWebhook).values()}
            if not webhooks or not await self._claim(records, stored.get(CLAIM)):
                return {}
            pending = read_all(stored, DELIVERY, WebhookDelivery).values()
            waiting = Counter(one.webhook for one in pending)
            batches = Counter(one.webhook for one in pending if one.event == "items")
            seen = await look_at_store(store)
            for name, webhook in webhooks.items():
                if waiting[name] < MAX_PENDING:
                    more_items = batches[name] < MAX_ITEM_BATCHES
                    await self._detect(records, webhook, stored, seen, more_items=more_items)
            return webhooks

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

    async def _send_queue(self, webhook: StoredWebhook) -> int:
        """Send what is due for a webhook, the oldest first; return how many deliveries were accepted."""
        accepted, until = 0, time.monotonic() + QUEUE_S
        try:
            async with open_store(self._settings.store) as store:
                records = store.api_records
                stored = await records.all()
                due = [
                    (one.created_at, key, one)
                    for key, one in read_all(stored, DELIVERY, WebhookDelivery).items()
                    if one.next_at <= time.time() and one.webhook == webhook.name
                ]
                due.sort(key=lambda found: found[:2])
                for _, key, delivery in due[:PER_ROUND]:
                    accepted += await self._send(records, key, stored[key], delivery, webhook)
                    if time.monotonic() > until:
                        break
        except FAILURES as error:
            _log_waiting(error)
        return accepted

    async def _send(
        self,
        records: ApiRecords,
        key: str,
        packed: bytes,
        delivery: WebhookDelivery,
        webhook: StoredWebhook,
    ) -> bool:
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


def _log_waiting(error: BaseException) -> None:
    log.warning("webhooks.waiting", extra={"why": str(error)})


async def look_at_store(store: Store) -> SeenStore:
    """Read what events are detected from: which crawls have finished, and the alerts."""
    crawls = {}
    for name in await store.crawls.names():
        counts = await store.frontier.counts(name)
        began = float(await store.frontier.value(name, BEGAN) or 0.0)
        crawls[name] = SeenCrawl(counts.accepted, await has_finished(store, name), began)
    alerts = await read_alerts(store)
    return SeenStore(crawls, alerts.active, alerts.recent)
