"""Webhooks, positions and deliveries in the records of the API: `w/NAME`, `p/NAME` and `d/NAME/ID`."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from shoal.model.api.webhooks import NewWebhook
from shoal.model.errors import Misconfigured
from shoal.services.webhooks.rules import StoredWebhook, WebhookDelivery, WebhookPosition
from shoal.stores.contract.api_records import ApiRecords

WEBHOOK, POSITION, DELIVERY, CLAIM = "w/", "p/", "d/", "webhooks/claim"
MAX_WEBHOOKS = 100
MAX_PENDING = 100  # deliveries that wait for one webhook; then no more events are looked for

T = TypeVar("T")


def read_all(records: Mapping[str, bytes], prefix: str, kind: type[T]) -> dict[str, T]:
    """Return the records with a prefix by their key; what cannot be read is left out."""
    found = {}
    for key, packed in records.items():
        if key.startswith(prefix) and (one := read_one(packed, kind)) is not None:
            found[key] = one
    return found


def read_one(packed: bytes | None, kind: type[T]) -> T | None:
    try:
        return None if packed is None else msgspec.msgpack.decode(packed, type=kind)
    except msgspec.MsgspecError:
        return None


async def add_webhook(records: ApiRecords, new: NewWebhook, position: WebhookPosition) -> StoredWebhook:
    """Store a webhook with a new secret; raise `Misconfigured` if the name is taken."""
    stored = await records.all()
    if len(read_all(stored, WEBHOOK, StoredWebhook)) >= MAX_WEBHOOKS:
        raise Misconfigured(f"there are {MAX_WEBHOOKS} webhooks already: remove one first")
    webhook = StoredWebhook(
        name=new.name,
        url=new.url,
        events=tuple(new.events),
        secret=secrets.token_urlsafe(32),
        created_at=time.time(),
        crawl=new.crawl or "",
    )
    key, place = WEBHOOK + new.name, POSITION + new.name
    taken = Misconfigured(f"there is a webhook {new.name!r} already: remove it first")
    if key in stored:
        raise taken
    made = msgspec.msgpack.encode(webhook), msgspec.msgpack.encode(position)
    if key not in await records.swap_all({key: (None, made[0]), place: (stored.get(place), made[1])}):
        raise taken
    return webhook


async def remove_webhook(records: ApiRecords, name: str) -> None:
    """Remove a webhook and what was to be delivered to it."""
    stored = await records.all()
    if WEBHOOK + name not in stored:
        raise Misconfigured(f"there is no webhook {name!r}")
    for key, packed in stored.items():
        if key in (WEBHOOK + name, POSITION + name) or key.startswith(f"{DELIVERY}{name}/"):
            await records.swap(key, packed, None)


async def store_events(
    records: ApiRecords,
    webhook: str,
    deliveries: Sequence[WebhookDelivery],
    packed: bytes | None,
    after: WebhookPosition,
) -> None:
    """Store the deliveries of a webhook together with the position behind them.

    `packed` is the position before. Deliveries that are stored already stay as they are.
    """
    changes: dict[str, tuple[bytes | None, bytes | None]] = {
        f"{DELIVERY}{webhook}/{one.id}": (None, msgspec.msgpack.encode(one)) for one in deliveries
    }
    # The position last: where there are many, they are stored in several steps.
    changes[POSITION + webhook] = (packed, msgspec.msgpack.encode(after))
    await records.swap_all(changes)
