"""The bus on NATS JetStream: a work queue that the store's page streams are relayed into.

The stream of a shard is an outbox. A relay, one at a time among all workers, publishes its entries under ids
of their own and deletes them when the server has confirmed them; dying between the two it publishes again
what the server recognises by its id. Nothing is lost on the way, and hardly anything comes twice.

The server may lose what it has confirmed: its folder, the last moments before a power cut, what somebody
purged. The store still knows which pages are open. So where there is no queue they are announced again before
it is made, and where the queue is empty although nothing waits to be relayed they are announced again now and
then, those excepted that are. One that comes twice by that counts once.

Which consumer has a page the store does not know here: of two that parse the same page, one too slow and its
successor, the first to acknowledge is accepted and the other refused.

The server counts how often it has delivered a message, whatever became of it. A page that is given back is
no reason to suspect it, so it goes back as a new message, which knows of the strikes that there were before.

The queue is named after the store, by an id that the store keeps: fleets that share a server never meet.
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

from shoal.bus.delivery import DEADLINE, Delivery, Lag, Reannounce
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import PageRecord
from shoal.model.request import unpack
from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.streams import ShardStreams, StreamEntry

log = logging.getLogger(__name__)

DURABLE = "parse"
RELAYED = 64  # entries of each shard that are under way at once
TERM = 10.0  # seconds, after which a relay that has died gets a successor
_CONNECT = 10.0  # seconds
_CONFIRM = 5.0  # seconds for the server to confirm a page
_RECOGNISED = 120.0  # seconds during which the server knows a page again that is published twice
_AGAIN = 1.0
_GOODBYE = 2.0  # seconds


class _Announced(msgspec.Struct, array_like=True, frozen=True):
    """A page as it travels."""

    crawl: str
    fingerprint: int
    request: bytes
    page: PageRecord
    strikes: int = 0  # of earlier messages with this page, which were given back


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Announced).decode
_decode_page = msgspec.msgpack.Decoder(PageRecord).decode


class NatsBus:
    """One consumer, and a relay if nobody else is; made by `open`."""

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
        self._jetstream = client.jetstream(timeout=_CONFIRM)
        self._store = store
        self._streams = ShardStreams(store, key_names.pages)
        self._consumer = consumer
        self._reannounce = reannounce
        self._deadline = deadline
        self._counted_at = time.monotonic()
        self._name = f"shoal-{name}"
        self._subscription: JetStreamContext.PullSubscription | None = None
        self._messages: dict[str, Msg] = {}  # by place, those that are not done
        self._suspects: deque[Delivery] = deque()  # delivered before, waiting for their turn

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        address: str,
        store: RedisClient,
        *,
        consumer: str,
        reannounce: Reannounce,
        deadline: float = DEADLINE,
    ) -> AsyncIterator["NatsBus"]:
        """Connect, make the queue if it is not there, and join it."""
        name = await _name_of(store)
        client = Client()
        try:
            with _translated():
                async with asyncio.timeout(_CONNECT):
                    await client.connect(
                        address,
                        name=consumer,
                        error_cb=_told,
                        max_reconnect_attempts=-1,  # also the first time: hence our own limit above
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
            await _hang_up(client)

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]:
        """Take pages."""
        if not self._suspects:
            fresh = await self._fetch(limit, wait)
            if fresh:
                return fresh
        # With a page that was delivered before comes nothing that could be blamed with it.
        return [self._suspects.popleft()] if self._suspects else []

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Stay in charge of pages. Nobody can tell here who has lost one: the store does, in the end."""
        for delivery in [*deliveries, *self._suspects]:
            if delivery.place in self._messages:
                with _translated():
                    await self._messages[delivery.place].in_progress()
        return list(deliveries)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """Take pages off the queue; if the server does not hear of it, they come again and are refused."""
        for delivery in deliveries:
            if (message := self._messages.pop(delivery.place, None)) is not None:
                with _translated():
                    await message.ack()

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give pages back, as if they had not been delivered this time.

        If the server does not hear of it, they come again when their deadline is over.
        """
        try:
            with _translated():
                await fan_out(map(self._give_back, deliveries))
        except Unavailable as error:
            log.warning("bus.waits", extra={"why": str(error)})

    async def lag(self) -> Lag:
        """Count pages, those included that are not relayed yet."""
        with _translated():
            told = await self._jetstream.consumer_info(self._name, DURABLE)
        waiting = (told.num_pending or 0) + await self._streams.length()
        return Lag(waiting, told.num_ack_pending or 0)

    async def relay(self) -> None:
        """Bring announced pages into the queue whenever no other worker does, until cancelled."""
        while True:
            try:
                if await self._is_relay():
                    await self._relay_once()
                else:
                    await asyncio.sleep(TERM / 2)
            except Unavailable as error:
                log.warning("bus.waits", extra={"why": str(error)})
                await asyncio.sleep(_AGAIN)

    async def _join(self) -> None:
        await self._make()
        self._subscription = await self._jetstream.pull_subscribe_bind(DURABLE, self._name)

    async def _make(self) -> None:
        """Make the queue if it is not there, or not any more."""
        try:
            await self._jetstream.stream_info(self._name)
        except nats.js.errors.NotFoundError:
            await self._announce_lost()  # first: a queue that is there counts as one that has lost nothing
            await self._jetstream.add_stream(
                StreamConfig(
                    name=self._name,
                    subjects=[f"{self._name}.pages.*"],
                    retention=RetentionPolicy.WORK_QUEUE,
                    storage=StorageType.FILE,
                    duplicate_window=_RECOGNISED,
                )
            )
        await self._jetstream.add_consumer(
            self._name, ConsumerConfig(durable_name=DURABLE, ack_wait=self._deadline, max_ack_pending=-1)
        )

    async def _announce_lost(self) -> None:
        if pages := await self._reannounce():
            log.warning("bus.lost", extra={"pages": pages})

    async def _recount(self) -> None:
        """See to pages that the queue has lost: it holds a page until it is done with, and is empty."""
        self._counted_at = time.monotonic()
        told = await self._jetstream.stream_info(self._name)
        if not told.state.messages:
            await self._announce_lost()

    async def _leave(self) -> None:
        """Give back what was never handed out; what was in hand is for the contract to say."""
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                on_their_way = await self._fetch(RELAYED, 0.0)
                await self.release([*on_their_way, *self._suspects])

    async def _give_back(self, delivery: Delivery) -> None:
        if (message := self._messages.pop(delivery.place, None)) is None:
            return
        again = msgspec.structs.replace(_decode(message.data), strikes=delivery.number - 1)
        # The new one first: after a death between the two the page comes twice, and counts once.
        await self._jetstream.publish(message.subject, _encode(again))
        await message.ack()

    async def _fetch(self, limit: int, wait: float) -> list[Delivery]:
        assert self._subscription is not None
        try:
            messages = await self._subscription.fetch(limit, timeout=max(wait, 0.01))
        except TimeoutError:  # nothing there
            return []
        except nats.errors.Error:  # nobody there, or no queue: the client mends the one, the relay the other
            await asyncio.sleep(min(wait, _AGAIN))
            return []
        deliveries = [self._delivery(message) for message in messages]
        self._suspects.extend(delivery for delivery in deliveries if delivery.number > 1)
        return [delivery for delivery in deliveries if delivery.number == 1]

    def _delivery(self, message: Msg) -> Delivery:
        announced, place = _decode(message.data), str(message.metadata.sequence.stream)
        self._messages[place] = message
        return Delivery(
            crawl=announced.crawl,
            fingerprint=announced.fingerprint,
            request=unpack(announced.request),
            page=announced.page,
            number=announced.strikes + message.metadata.num_delivered,
            consumer="",
            place=place,
        )

    async def _is_relay(self) -> bool:
        """Be the relay for a while. Two at once, after a pause of one of them, only do needless work."""
        tag, key = self._store.fleet_tag, key_names.relay(self._store.fleet_tag)
        term_ms = int(TERM * 1000)
        holder = await self._store.do_always(tag, "SET", key, self._consumer, "NX", "GET", "PX", term_ms)
        if holder == self._consumer.encode():
            await self._store.do(tag, "PEXPIRE", key, term_ms)
        return holder in (None, self._consumer.encode())

    async def _relay_once(self) -> None:
        entries = await self._streams.read({}, count=RELAYED)
        with _translated():
            try:
                if not entries and time.monotonic() - self._counted_at > self._deadline:
                    await self._recount()
                await fan_out(map(self._publish, entries))
            except (nats.js.errors.NotFoundError, nats.js.errors.NoStreamResponseError):
                await self._make()
                return
        if not entries:
            await self._streams.wait({}, seconds=TERM / 3, stop=asyncio.Event())
        for shard, group in groupby(entries, key=lambda entry: entry.shard):
            ids = [entry.id for entry in group]
            await self._store.do(self._store.tag(shard), "XDEL", self._streams.key(shard), *ids)

    async def _publish(self, entry: StreamEntry) -> None:
        announced = _Announced(
            entry.fields[b"crawl"].decode(),
            struct.unpack(">Q", entry.fields[b"fp"])[0],
            entry.fields[b"request"],
            _decode_page(entry.fields[b"page"]),
        )
        await self._jetstream.publish(
            f"{self._name}.pages.{entry.shard}",
            _encode(announced),
            headers={"Nats-Msg-Id": f"{entry.shard}-{entry.id}"},
        )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except nats.errors.AuthorizationError as error:
        raise Misconfigured(f"bus: NATS: {error}") from error
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise Unavailable(f"bus: NATS: {str(error) or 'no answer'}") from error


async def _hang_up(client: Client) -> None:
    with suppress(RuntimeError, OSError):  # what it has still to say, it says into a connection that is gone
        await client.close()


async def _told(error: Exception) -> None:
    """Note what the client mends by itself; its own way is to print a traceback."""
    log.debug("bus.connection", extra={"why": type(error).__name__})


async def _name_of(store: RedisClient) -> str:
    key = key_names.store_id(store.fleet_tag)
    await store.do_always(store.fleet_tag, "SET", key, os.urandom(4).hex(), "NX", replicated=True)
    id = await store.do(store.fleet_tag, "GET", key)
    return re.sub(r"[^A-Za-z0-9_-]", "_", store.namespace) + f"-{id.decode()}"
