"""Send alerts to webhooks: signed, with retries, and never in the way of a crawl.

Each webhook has a bounded queue and a task. Requests leave through the connect guard: a webhook on a private
address needs `fetch.allow_ranges` or `crawl.allow_private`. The path of a webhook is often a secret, so logs
name its host only.

What is posted is signed if there is a key: `X-Shoal-Signature: t=SECONDS,v1=HEX`, where HEX is the
HMAC-SHA256 of `SECONDS.BODY`. A receiver that checks the time as well cannot be sent an old alert again.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from shoal.engine.fetchers import ca_file_of, nameservers_of
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.fetch.http.message import Headers
from shoal.model.alert import Alert, alert_json
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response
from shoal.model.settings import Settings
from shoal.model.url import canonical, host_key
from shoal.services.alerts.background import in_background
from shoal.stores.contract.record_reader import read_key_file

log = logging.getLogger(__name__)

MAX_WAITING = 100  # deliveries per webhook; beyond them the oldest are dropped
TRIES = 6
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
TOTAL_S = 10.0  # for one delivery
CLOSE_S = 3.0  # for what is left at the end
AGAIN = frozenset({408, 425, 429})  # statuses below 500 after which another try may help


class PostClient(Protocol):
    """The part of a client that posting needs."""

    async def fetch(
        self, url: str, *, method: str, headers: Headers, body: bytes, limits: FetchLimits
    ) -> Response | Failure | NotSent: ...


class Webhook:
    """One receiver: its queue, and the task that empties it."""

    def __init__(self, url: str, key: bytes, client: PostClient, limits: FetchLimits) -> None:
        self._url = canonical(url)
        self.host = host_key(self._url)
        self._key = key
        self._client = client
        self._limits = limits
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self.dropped = 0

    def add(self, body: bytes) -> None:
        """Queue a delivery."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
            if self.dropped == 1:
                log.warning("webhook.dropped", extra={"host": self.host, "most": MAX_WAITING})
        self._waiting.append(body)
        self._news.set()

    async def run(self) -> None:
        """Deliver until closed."""
        while not self._closing.is_set() or self._waiting:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
                continue
            body = self._waiting.popleft()
            await self._deliver(body)

    def close(self) -> None:
        """Have `run` return when nothing waits any more."""
        self._closing.set()
        self._news.set()

    async def _deliver(self, body: bytes) -> None:
        for number in range(1, TRIES + 1):
            why, is_final = judge_answer(await self._post(body))
            if not why:
                return
            if is_final or number == TRIES:
                log.warning("webhook.failed", extra={"host": self.host, "why": why, "tries": number})
                return
            await asyncio.sleep(pause_before(number))

    async def _post(self, body: bytes) -> Response | Failure | NotSent:
        headers = [("Content-Type", "application/json"), ("User-Agent", "Shoal"), ("Accept", "*/*")]
        if self._key:
            headers.append(("X-Shoal-Signature", signature(self._key, body, int(time.time()))))
        try:
            return await self._client.fetch(
                self._url, method="POST", headers=tuple(headers), body=body, limits=self._limits
            )
        except Exception as error:  # a webhook must end neither a crawl nor a worker
            log.exception("webhook.internal", extra={"host": self.host})
            return Failure(FailureClass.INTERNAL, type(error).__name__)


class Webhooks:
    """See `watch.Notifier`."""

    def __init__(self, hooks: Sequence[Webhook]) -> None:
        self._hooks = hooks

    def send(self, event: str, alert: Alert, store: str) -> None:
        body = payload(event, alert, store, secrets.token_hex(8))
        for hook in self._hooks:
            hook.add(body)


def payload(event: str, alert: Alert, store: str, delivery: str) -> bytes:
    """Return what is posted; `store` is its address without secrets."""
    return msgspec.json.encode({"event": event, "id": delivery, "store": store, "alert": alert_json(alert)})


def signature(key: bytes, body: bytes, at: int) -> str:
    """Return the header that proves where a delivery comes from."""
    return f"t={at},v1={hmac.new(key, b'%d.%b' % (at, body), hashlib.sha256).hexdigest()}"


def judge_answer(answer: Response | Failure | NotSent) -> tuple[str, bool]:
    """Return why a delivery failed (empty: it did not), and whether another try would fail as well."""
    match answer:
        case Response(status=status) if 200 <= status < 300:
            return "", True
        case Response(status=status):
            return f"status {status}", status < 500 and status not in AGAIN
        case Failure(failure_class=kind, reason=reason):
            return f"{kind.value}: {reason}", kind in (FailureClass.REFUSED, FailureClass.INTERNAL)
        case _:
            return "not sent", False


def pause_before(tries: int) -> float:
    """Return how long to wait after so many tries."""
    return min(FIRST_PAUSE_S * 2.0 ** (tries - 1), LONGEST_PAUSE_S)


@asynccontextmanager
async def open_webhooks(settings: Settings) -> AsyncIterator[Webhooks | None]:
    """Open the webhooks of the settings; None: the settings name no webhook."""
    urls = settings.alerts.webhooks
    if not urls or not settings.alerts.enabled:
        yield None
        return
    key = read_key_file("alerts.webhook_key_file", settings.alerts.webhook_key_file)
    guard = Guard(address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private))
    limits = replace(settings.fetch, total=min(settings.fetch.total, TOTAL_S))
    async with (
        DnsResolver(nameservers=nameservers_of(settings.crawl), timeout=settings.fetch.connect) as resolver,
        HttpClient(resolver, guard, ca_file=ca_file_of(settings.crawl)) as client,
    ):
        hooks = [Webhook(url, key, client, limits) for url in urls]
        async with in_background([hook.run() for hook in hooks], leave=partial(_leave, hooks)):
            yield Webhooks(hooks)


async def _leave(hooks: Sequence[Webhook], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait a moment for what is left to be delivered."""
    for hook in hooks:
        hook.close()
    await asyncio.wait(tasks, timeout=CLOSE_S)
