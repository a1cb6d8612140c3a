"""What becomes a delivery, and when it is sent. Pure."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from shoal.model.alert import Alert
from shoal.model.api.webhooks import WebhookEvent

MAX_ATTEMPTS = 12  # the last one comes nine hours after the first
FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 2 * 3600.0
KEPT_ALERTS = 500


class StoredWebhook(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    events: tuple[WebhookEvent, ...]
    secret: str
    created_at: float
    crawl: str = ""  # empty: every crawl


class WebhookPosition(msgspec.Struct, frozen=True, kw_only=True):
    """What was already turned into deliveries."""

    finished: dict[str, int] = {}  # by crawl: the number of its requests when it had finished
    generations: dict[str, float] = {}  # by crawl that has finished: when its generation began
    alerts: tuple[str, ...] = ()  # ids, latest last
    item_offset: int = 0  # in the output of the crawl
    item_file: str = ""  # which file that is: a new generation puts another one in its place
    delivered: int = 0
    dropped: int = 0  # after too many attempts


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    webhook: str
    event: WebhookEvent
    body: bytes
    created_at: float
    attempts: int = 0
    next_at: float = 0.0
    problem: str = ""  # of the last attempt


@dataclass(frozen=True, slots=True)
class SeenCrawl:
    accepted: int  # requests
    finished: bool
    began: float = 0.0  # when its generation began; 0: not known


@dataclass(frozen=True, slots=True)
class SeenStore:
    """What one look at a store has found."""

    crawls: Mapping[str, SeenCrawl]
    active: Sequence[Alert] = ()
    cleared: Sequence[Alert] = ()


@dataclass(frozen=True, slots=True)
class DetectedEvents:
    position: WebhookPosition
    deliveries: Sequence[WebhookDelivery]


def detect(webhook: StoredWebhook, position: WebhookPosition, seen: SeenStore, now: float) -> DetectedEvents:
    """Return the events since a position, and the next position. Items are read apart."""
    made: list[WebhookDelivery] = []
    finished = dict(position.finished)
    for crawl, found in seen.crawls.items():
        if webhook.crawl not in ("", crawl):
            continue
        is_other = position.generations.get(crawl, found.began) != found.began
        if not found.finished:
            finished.pop(crawl, None)  # it has work again: its next end is another event
        elif finished.get(crawl) != found.accepted or is_other:
            finished[crawl] = found.accepted
            if "crawl.finished" in webhook.events:
                fields = {"crawl": crawl, "accepted": found.accepted}
                subject = f"{crawl}/{found.began}/{found.accepted}"
                made.append(make_delivery(webhook, "crawl.finished", fields, subject, now))
    finished = {crawl: accepted for crawl, accepted in finished.items() if crawl in seen.crawls}
    generations = {crawl: seen.crawls[crawl].began for crawl in finished}
    known = list(position.alerts)
    events: tuple[tuple[WebhookEvent, Sequence[Alert]], ...] = (
        ("alert.raised", seen.active),
        ("alert.cleared", seen.cleared),
    )
    for event, alerts in events:
        for alert in alerts:
            subject = f"{event}/{alert.kind}/{alert.about}/{alert.raised_at:.3f}"
            if event in webhook.events and subject not in known and alert.raised_at >= webhook.created_at:
                known.append(subject)
                fields = {**msgspec.to_builtins(alert), "text": alert.text}
                made.append(make_delivery(webhook, event, fields, subject, now))
    after = msgspec.structs.replace(
        position, finished=finished, generations=generations, alerts=tuple(known[-KEPT_ALERTS:])
    )
    return DetectedEvents(after, made)


def make_delivery(
    webhook: StoredWebhook, event: WebhookEvent, fields: Mapping[str, object], subject: str, now: float
) -> WebhookDelivery:
    """Return an event as it is sent. The same event of the same webhook always has the same id."""
    named = f"{webhook.name}\n{webhook.created_at}\n{event}\n{subject}"
    identity = hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    body = msgspec.json.encode({"id": identity, "event": event, "at": now, **fields})
    return WebhookDelivery(id=identity, webhook=webhook.name, event=event, body=body, created_at=now)


def after_failure(delivery: WebhookDelivery, problem: str, now: float) -> WebhookDelivery | None:
    """Return a delivery with the time of its next attempt; None: it has had too many."""
    attempts = delivery.attempts + 1
    if attempts >= MAX_ATTEMPTS:
        return None
    wait = min(FIRST_RETRY_S * 3 ** (attempts - 1), LONGEST_RETRY_S)
    return msgspec.structs.replace(delivery, attempts=attempts, next_at=now + wait, problem=problem[:300])


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return what proves that a delivery comes from a server that knows the secret."""
    signed = timestamp.encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
