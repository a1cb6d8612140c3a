"""Add, list and remove webhooks."""

import msgspec

from shoal.model.api.webhooks import NewWebhook, WebhookInfo
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.services.remote.submission import judge_seeds
from shoal.services.webhooks.deliver import look_at_store
from shoal.services.webhooks.records import (
    DELIVERY,
    POSITION,
    WEBHOOK,
    add_webhook,
    read_all,
    read_one,
    remove_webhook,
)
from shoal.services.webhooks.rules import StoredWebhook, WebhookDelivery, WebhookPosition
from shoal.stores.open import open_store, store_exists


async def create_webhook(settings: Settings, new: NewWebhook) -> WebhookInfo:
    """Store a webhook. Crawls that have finished before are no events; items are sent from the first."""
    [verdict] = judge_seeds([new.url], settings)
    if not verdict.accepted:
        raise Misconfigured(f"url: {verdict.reason}")
    if "items" in new.events and new.crawl is None:
        raise Misconfigured("events: items needs the name of a crawl")
    dsn = settings.store
    async with open_store(dsn, create=not store_exists(dsn)) as store:
        position = WebhookPosition()
        if store_exists(dsn):
            seen = await look_at_store(store)
            ended = {name: one for name, one in seen.crawls.items() if one.finished}
            position = WebhookPosition(
                finished={name: one.accepted for name, one in ended.items()},
                generations={name: one.began for name, one in ended.items()},
            )
        canonical = msgspec.structs.replace(new, url=verdict.url)
        made = await add_webhook(store.api_records, canonical, position)
    return _info(made, position, [], secret=made.secret)


async def list_webhooks(dsn: str) -> list[WebhookInfo]:
    async with open_store(dsn, create=not store_exists(dsn)) as store:
        stored = await store.api_records.all()
    waiting = list(read_all(stored, DELIVERY, WebhookDelivery).values())
    return [
        _info(
            one,
            read_one(stored.get(POSITION + one.name), WebhookPosition) or WebhookPosition(),
            [delivery for delivery in waiting if delivery.webhook == one.name],
        )
        for _, one in sorted(read_all(stored, WEBHOOK, StoredWebhook).items())
    ]


async def delete_webhook(dsn: str, name: str) -> None:
    async with open_store(dsn, create=not store_exists(dsn)) as store:
        await remove_webhook(store.api_records, name)


def _info(
    webhook: StoredWebhook, position: WebhookPosition, waiting: list[WebhookDelivery], *, secret: str = ""
) -> WebhookInfo:
    latest = max((one for one in waiting if one.problem), key=lambda one: one.next_at, default=None)
    return WebhookInfo(
        name=webhook.name,
        url=webhook.url,
        events=list(webhook.events),
        crawl=webhook.crawl,
        created_at=webhook.created_at,
        delivered=position.delivered,
        dropped=position.dropped,
        waiting=len(waiting),
        problem="" if latest is None else latest.problem,
        secret=secret,
    )
