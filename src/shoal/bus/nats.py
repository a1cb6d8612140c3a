"""The bus on NATS JetStream: a work queue into which the page streams of the store are relayed.

The stream of a shard is an outbox. One relay at a time among all workers publishes its entries under unique
message ids, and deletes them when the server has confirmed them. If it dies between the two, the next relay
publishes them again, and the server recognises the ids. No page is lost on the way, and duplicates are
rare.

The server may lose what it has confirmed: its folder, the last moments before a power cut, messages that an
operator has purged. The store still knows which pages are open. If there is no queue, the store announces
the open pages again before the queue is made. If the queue is empty although nothing waits to be relayed,
the store announces them again now and then, except those that are in its streams. A page that is delivered
twice by this counts once.

The store does not know here which consumer has a page. If two parse the same page, a slow one and its
successor, the store accepts the first acknowledgement and refuses the other.

The server counts the deliveries of a message, whatever their result. A page that is released is not a
suspect, so it is published as a new message, which carries the strikes of the earlier one.

The name of the queue contains an id that is kept in the store: fleets that share a server have separate
queues.
"""

import asyncio
import logging
import os
import re
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import groupby

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.client import JetStreamContext

from shoal.bus.contract import DEADLINE_S, BusBacklog, BusFactory, Delivery, Reannounce
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import PageRecord
from shoal.model.request import unpack_stored
from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.quarantine import NO_CRAWL, Quarantine, UnreadableEntry
from shoal.redis_client.streams import ShardStreams, StreamEntry

log = logging.getLogger(__name__)

DURABLE = "parse"
RELAY_ENTRIES = 64  # entries of each shard that are published at once
RELAY_TERM_S = 10.0  # after which another worker replaces a relay that has died
_CONNECT_TIMEOUT_S = 10.0
_CONFIRM_TIMEOUT_S = 5.0  # for the server to confirm a page
_DUPLICATE_WINDOW_S = 120.0  # in which the server recognises a page that is published twice
_RETRY_S = 1.0
_LEAVE_TIMEOUT_S = 2.0


class _Announced(msgspec.Struct, array_like=True, frozen=True):
    """The body of a message."""

    crawl: str
    fingerprint: int
    request: bytes
    page: PageRecord
    strikes: int = 0  # of earlier messages with this page, which were released


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Announced).decode
_decode_page = msgspec.msgpack.Decoder(PageRecord).decode


class NatsBus:
    """One consumer, and the relay if no other worker is; made by `open`."""

    def __init__(
        self,
        client: Client,
        store: RedisClient,
        *,
        consumer: str,
        reannounce: Reannounce,
        deadline: float,
        name: str,
    ) -> None:
        self._client = client
        self._jetstream = client.jetstream(timeout=_CONFIRM_TIMEOUT_S)
        self._store = store
        self._streams = ShardStreams(store, key_names.pages)
        self._consumer = consumer
        self._reannounce = reannounce
        self._deadline = deadline
        self._counted_at = time.monotonic()
        self._name = f"shoal-{name}"
        self._subscription: JetStreamContext.PullSubscription | None = None
        self._messages: dict[str, Msg] = {}  # by message id, those that are not done
        self._suspects: deque[Delivery] = deque()  # redelivered pages, to be returned one at a time

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        address: str,
        store: RedisClient,
        *,
        consumer: str,
        reannounce: Reannounce,
        deadline: float = DEADLINE_S,
    ) -> AsyncIterator["NatsBus"]:
        """Connect, make the queue if it does not exist, and join it."""
        name = await _queue_name(store)
        client = Client()
        try:
            with _translate_errors():
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    await client.connect(
                        address,
                        name=consumer,
                        error_cb=_log_error,
                        max_reconnect_attempts=-1,  # applies to the first connection, too: hence the timeout
                        reconnect_time_wait=1,
                    )
                bus = cls(
                    client, store, consumer=consumer, reannounce=reannounce, deadline=deadline, name=name
                )
                await bus._join()
            try:
                yield bus
            finally:
                await bus._leave()
        finally:
            await _close(client)

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]:
        """Return pages."""
        if not self._suspects:
            fresh = await self._fetch(limit, wait)
            if fresh:
                return fresh
        # Redelivered pages are returned alone, so that a crash is attributed to the right page.
        return [self._suspects.popleft()] if self._suspects else []

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Renew the deadline of pages. NATS does not report lost ones: the store refuses them in the end."""
        for delivery in [*deliveries, *self._suspects]:
            if delivery.message_id in self._messages:
                with _translate_errors():
                    await self._messages[delivery.message_id].in_progress()
        return list(deliveries)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """Remove pages from the queue; if that is lost, they are delivered again and then refused."""
        for delivery in deliveries:
            if (message := self._messages.pop(delivery.message_id, None)) is not None:
                with _translate_errors():
                    await message.ack()

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Return pages to the queue without a strike.

        If the server is unavailable, they are delivered again after their deadline.
        """
        try:
            with _translate_errors():
                await fan_out(map(self._requeue, deliveries))
        except Unavailable as error:
            log.warning("bus.unavailable", extra={"why": str(error)})

    async def backlog(self) -> BusBacklog:
        """Count pages, including those that are not relayed yet."""
        with _translate_errors():
            info = await self._jetstream.consumer_info(self._name, DURABLE)
        waiting = (info.num_pending or 0) + await self._streams.length()
        return BusBacklog(waiting, info.num_ack_pending or 0)

    async def relay(self) -> None:
        """Publish announced pages to the queue whenever no other worker does, until cancelled."""
        while True:
            try:
                if await self._is_relay():
                    await self._relay_once()
                else:
                    await asyncio.sleep(RELAY_TERM_S / 2)
            except Unavailable as error:
                log.warning("bus.unavailable", extra={"why": str(error)})
                await asyncio.sleep(_RETRY_S)

    async def _join(self) -> None:
        await self._make_queue()
        self._subscription = await self._jetstream.pull_subscribe_bind(DURABLE, self._name)

    async def _make_queue(self) -> None:
        """Make the queue if it does not exist."""
        try:
            await self._jetstream.stream_info(self._name)
        except nats.js.errors.NotFoundError:
            await self._announce_lost()  # first: a queue that exists is taken for one that has lost nothing
            await self._jetstream.add_stream(
                StreamConfig(
                    name=self._name,
                    subjects=[f"{self._name}.pages.*"],
                    retention=RetentionPolicy.WORK_QUEUE,
                    storage=StorageType.FILE,
                    duplicate_window=_DUPLICATE_WINDOW_S,
                )
            )
        await self._jetstream.add_consumer(
            self._name, ConsumerConfig(durable_name=DURABLE, ack_wait=self._deadline, max_ack_pending=-1)
        )

    async def _announce_lost(self) -> None:
        if pages := await self._reannounce():
            log.warning("bus.lost", extra={"pages": pages})

    async def _announce_if_empty(self) -> None:
        """Announce lost pages again if the queue is empty: it holds every page until the page is done."""
        self._counted_at = time.monotonic()
        info = await self._jetstream.stream_info(self._name)
        if not info.state.messages:
            await self._announce_lost()

    async def _leave(self) -> None:
        """Release what was never returned by `deliver`; the caller releases the rest."""
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                fetched = await self._fetch(RELAY_ENTRIES, 0.0)
                await self.release([*fetched, *self._suspects])

    async def _requeue(self, delivery: Delivery) -> None:
        if (message := self._messages.pop(delivery.message_id, None)) is None:
            return
        copy = msgspec.structs.replace(_decode(message.data), strikes=delivery.number - 1)
        # The new message first: after a crash between the two the page is delivered twice, and counts once.
        await self._jetstream.publish(message.subject, _encode(copy))
        await message.ack()

    async def _fetch(self, limit: int, wait: float) -> list[Delivery]:
        assert self._subscription is not None
        try:
            messages = await self._subscription.fetch(limit, timeout=max(wait, 0.01))
        except TimeoutError:  # the queue is empty
            return []
        except (
            nats.errors.Error
        ):  # no server, or no queue: the client reconnects, and the relay makes a queue
            await asyncio.sleep(min(wait, _RETRY_S))
            return []
        found = [await self._read_message(message) for message in messages]
        deliveries = [delivery for delivery in found if delivery is not None]
        self._suspects.extend(delivery for delivery in deliveries if delivery.number > 1)
        return [delivery for delivery in deliveries if delivery.number == 1]

    async def _read_message(self, message: Msg) -> Delivery | None:
        """Return the delivery of a message; None: it cannot be read, and its page is announced again."""
        try:
            return self._delivery(message)
        except (msgspec.DecodeError, ValueError) as error:
            sequence = message.metadata.sequence.stream
            about = {"place": self._name, "entry": str(sequence), "bytes": len(message.data)}
            log.error("entry.quarantined", extra={**about, "why": str(error)})
            with suppress(nats.errors.Error):
                await message.term()
            await self._reannounce()
            return None

    def _delivery(self, message: Msg) -> Delivery:
        announced, message_id = _decode(message.data), str(message.metadata.sequence.stream)
        self._messages[message_id] = message
        return Delivery(
            crawl=announced.crawl,
            fingerprint=announced.fingerprint,
            request=unpack_stored(announced.request),
            page=announced.page,
            number=announced.strikes + message.metadata.num_delivered,
            consumer="",
            message_id=message_id,
        )

    async def _is_relay(self) -> bool:
        """Become or stay the relay for a term. Two at once, if one was suspended, only do needless work."""
        tag, key = self._store.fleet_tag, key_names.relay(self._store.fleet_tag)
        term_ms = int(RELAY_TERM_S * 1000)
        holder = await self._store.do_always(tag, "SET", key, self._consumer, "NX", "GET", "PX", term_ms)
        if holder == self._consumer.encode():
            await self._store.do(tag, "PEXPIRE", key, term_ms)
        return holder in (None, self._consumer.encode())

    async def _relay_once(self) -> None:
        entries = await self._streams.read({}, count=RELAY_ENTRIES)
        with _translate_errors():
            try:
                if not entries and time.monotonic() - self._counted_at > self._deadline:
                    await self._announce_if_empty()
                await fan_out(map(self._publish, entries))
            except (nats.js.errors.NotFoundError, nats.js.errors.NoStreamResponseError):
                await self._make_queue()
                return
        if not entries:
            await self._streams.wait({}, seconds=RELAY_TERM_S / 3, stop=asyncio.Event())
        for shard, group in groupby(entries, key=lambda entry: entry.shard):
            ids = [entry.id for entry in group]
            await self._store.do(self._store.tag(shard), "XDEL", self._streams.key(shard), *ids)

    async def _publish(self, entry: StreamEntry) -> None:
        try:
            announced = _Announced(
                entry.fields[b"crawl"].decode(),
                struct.unpack(">Q", entry.fields[b"fp"])[0],
                entry.fields[b"request"],
                _decode_page(entry.fields[b"page"]),
            )
        except (msgspec.DecodeError, struct.error, ValueError, KeyError) as error:
            key, why = self._streams.key(entry.shard), f"{type(error).__name__}: {error}"
            unreadable = UnreadableEntry(key, "stream", entry.id.encode(), why)
            await Quarantine(self._store).move(self._store.tag(entry.shard), NO_CRAWL, [unreadable])
            return
        await self._jetstream.publish(
            f"{self._name}.pages.{entry.shard}",
            _encode(announced),
            headers={"Nats-Msg-Id": f"{entry.shard}-{entry.id}"},
        )


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except nats.errors.AuthorizationError as error:
        raise Misconfigured(f"bus: NATS: {error}") from error
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise Unavailable(f"bus: NATS: {str(error) or 'no answer'}") from error


async def _close(client: Client) -> None:
    with suppress(RuntimeError, OSError):  # its last messages go to a connection that may be gone
        await client.close()


async def _log_error(error: Exception) -> None:
    """Log an error from which the client recovers itself; by default it prints a traceback."""
    log.debug("bus.connection", extra={"why": type(error).__name__})


async def _queue_name(store: RedisClient) -> str:
    """Return the name of the store's queue, with an id that the store keeps."""
    key = key_names.store_id(store.fleet_tag)
    await store.do_always(store.fleet_tag, "SET", key, os.urandom(4).hex(), "NX", replicated=True)
    id = await store.do(store.fleet_tag, "GET", key)
    return re.sub(r"[^A-Za-z0-9_-]", "_", store.namespace) + f"-{id.decode()}"


FACTORY = BusFactory(open=NatsBus.open)
