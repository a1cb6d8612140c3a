"""Writes one output of a crawl from the item streams of a fleet's store, each item once.

In a fleet, items reach the sinks through the store. The step that settles a page appends its items to the
stream of its shard. One worker at a time (`election.py`) reads the streams of all shards from its positions
and writes the items to the output. Only the output has these positions reliably: they are stored with what
was written (`checkpointed.py`). The exactly-once guarantee depends on the order of one round:

1. Read entries after the positions.
2. Send the previous positions to the shards of these entries, and wait until that write is on a replica and
on disk,
   as far as the store has them. The entries are older, so they are there, too: a server that is killed,
   loses power or is replaced cannot lose what is about to be written. In the same step, a shard answers
   whether it still has the entries (it may have been restarted since 1) and where its stream ends. Entries
   up to there, read in later rounds, are durable as well and need no wait. So one wait is enough for a
   whole backlog, however long it takes.
3. Write and flush the items; the new positions are stored with them.

If the streams have no more entries, the shards get the new positions at once, and the next round waits a
moment for more.

After a kill before the end of 3, the positions are unchanged: the next writer cuts the output back to them
and reads the same entries again. After a kill later, no position asks for these entries any more. Shards
drop the entries that every output of the crawl has; they learn of that in step 2 of a later round, never
too early.

A store that returns to an earlier state loses the pages that were settled since together with their
entries, because one script writes both. The pages are fetched again, and none of their items was written.

A writer that has lost the election and does not know it yet is stopped by the output itself.

A writer whose output fails does not renew its term until it has written something. It tries again while its
term lasts; then the standby workers try first, because they may reach what this worker cannot.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

import msgspec

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.quarantine import Quarantine, UnreadableEntry
from shoal.redis_client.script import load_script
from shoal.redis_client.streams import START, ShardStreams, StreamEntry
from shoal.sinks.contract import CheckpointedSink
from shoal.sinks.files import foreign_output
from shoal.sinks.fleet.checkpointed import WriterPosition, decode_position, open_checkpointed
from shoal.sinks.fleet.election import TERM_S, Election
from shoal.sinks.names import public_name
from shoal.sinks.registry import resolve

log = logging.getLogger(__name__)

ROUND_ENTRIES = 256  # pages per round, approximately, over all shards
MIN_SHARD_ENTRIES = 16  # pages per round of each shard, at least
_GATHER_S = 0.1  # pause after a round that has read all entries: every round stores a position
_RELEASE_S = 1.0  # for the store to end a term
_RETRY_S = 1.0  # pause before something unavailable is tried again
HANDOVER_FRACTION = 1 / 5  # of a term, in which a writer that has failed lets standby workers try first
_LOG_INTERVAL_S = 60.0  # between two log lines about the same failure
STOP_GRACE_S = 5.0  # for writing the remaining items when the writer is asked to stop
_RECENT_S = 5.0  # after the last item, during which the state still is WRITING
_SCRIPT = load_script("shoal.sinks.fleet", "written")
_unpack = msgspec.msgpack.Decoder(list[Item]).decode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriterOutput:
    """One of the outputs of a crawl."""

    crawl: int  # number of the crawl in the store
    output: str  # spelled the same on every machine: a file by its absolute path
    all: Sequence[str]  # the outputs of the crawl, including this one: entries stay until all have them
    fsync: bool = False
    overwrite: bool = False


class WriterState(StrEnum):
    """What a worker does for an output now; the values are in heartbeats and in `shoal status --json`."""

    STANDBY = "standby"  # another worker writes it
    ELSEWHERE = "elsewhere"  # it belongs to another machine
    FAILING = "failing"  # this worker was elected, but something is unavailable; it tries again
    WAITING = "waiting"  # this worker writes it, and there are no items
    WRITING = "writing"


def item_streams(store: RedisClient, crawl: int) -> ShardStreams:
    """Return the item streams of a crawl; their entries are what some output does not have yet."""
    return ShardStreams(store, partial(key_names.items, crawl=crawl))


class OutputWriter:
    """Writes one output whenever this worker is elected for it.

    Raise `Misconfigured` if the sink of the output is not installed on this machine.
    """

    def __init__(
        self, store: RedisClient, output: WriterOutput, *, holder: str, node: str, term_s: float = TERM_S
    ) -> None:
        self._store = store
        self._output = output
        self._resolved = resolve(output.output)
        self._name = self._resolved.name
        self._streams = item_streams(store, output.crawl)
        self._election = Election(
            store, output.crawl, self._resolved, holder=holder, node=node, term_s=term_s
        )
        self._poll_s = term_s / 3  # limit for one wait for entries, so that the term is renewed between two
        self._handover_s = term_s * HANDOVER_FRACTION
        self._positions: dict[int, str] = {}
        self._sent: dict[int, str] = {}  # by shard: the position that the shard has
        self._sent_servers = 0  # `servers_met` at that time; a new server process may have lost them
        self._durable: dict[int, str] = {}  # by shard: entries up to here cannot be lost
        self._state = WriterState.STANDBY
        self._failure = ""  # what is unavailable, since something was written last
        self._written_at = -math.inf  # monotonic
        self._log_again_at = -math.inf  # monotonic
        self.why = ""  # it does not write: what is unavailable, or which machine has the output
        self.items = 0  # written by this worker
        self._count = MIN_SHARD_ENTRIES  # pages of each shard that the next round reads

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop` is set, then finish the output. Raises `Misconfigured` if it cannot be written.

        While the store or the output is unavailable, the writer retries. If `stop` is already set, it tries
        once: a writer that was killed may have left the output unfinished (`progress.unfinished`).
        """
        while True:
            try:
                wait = 0.0 if self._failure and self._election.holds() else await self._election.acquire()
                if self._election.elsewhere:
                    self._set_state(WriterState.ELSEWHERE, self._election.elsewhere)
                elif wait:
                    self._set_state(WriterState.STANDBY)
                else:
                    await self._serve(stop)
            except (Misconfigured, asyncio.CancelledError):
                await self._end_term()
                raise
            except Unavailable as error:
                self._record_failure(str(error))
                wait = _retry_delay(self._election.remaining_s(), self._handover_s)
            await _sleep(stop, wait)
            if stop.is_set():
                return

    @property
    def state(self) -> WriterState:
        if self._state is WriterState.WAITING and time.monotonic() - self._written_at < _RECENT_S:
            return WriterState.WRITING
        return self._state

    def _record_failure(self, why: str) -> None:
        """Log what is unavailable when it is new, and then once per interval."""
        if self._failure != why or time.monotonic() > self._log_again_at:
            log.warning("output.unavailable", extra={"output": self._name, "why": why})
            self._log_again_at = time.monotonic() + _LOG_INTERVAL_S
        self._failure = why
        self._set_state(WriterState.FAILING, why)

    def _set_state(self, state: WriterState, why: str = "") -> None:
        self._state, self.why = state, why

    async def _serve(self, stop: asyncio.Event) -> None:
        sink = open_checkpointed(self._resolved, fsync=self._output.fsync, overwrite=self._output.overwrite)
        # One thread, so that the sink is closed after its last call has returned, however this ends.
        with ThreadPoolExecutor(1, thread_name_prefix="shoal.output") as thread:
            try:
                if await self._open(sink, thread):
                    log.info("output.opened", extra={"output": self._name})
                    self._set_state(WriterState.WAITING)
                    await self._write(sink, thread, stop)
            except Misconfigured:
                if self._election.holds():
                    raise
                log.info("output.lost", extra={"output": self._name})  # the output has detected it
            finally:
                with suppress(Exception):  # what was flushed is safe, and the output is opened anew
                    await asyncio.shield(_in(thread, sink.close))
        self._set_state(WriterState.STANDBY)
        if self._election.holds():
            await self._election.release()

    async def _end_term(self) -> None:
        """End the term of a writer that gives up, so that others need not wait until it is over."""
        if self._election.holds():
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(_RELEASE_S):
                    await self._election.release()

    async def _open(self, sink: CheckpointedSink, thread: ThreadPoolExecutor) -> bool:
        """Restore the output to its last flush, or start it; False: another worker has to do that."""
        self._sent, self._durable = {}, {}
        last = await _in(thread, sink.last_flush)
        if last is not None:
            position = decode_position(last.position)
            if position.owner == self._election.owner:
                self._positions = position.positions
                await _in(thread, partial(sink.restore, last.checkpoint))
                return True
            if not self._output.overwrite:
                raise foreign_output(self._name)
        # The position will contain the id of the output: if the store lost the id, the output would be
        # foreign.
        if await self._election.acquire(durable=True):
            return False
        self._positions = {}
        await _in(thread, partial(self._start, sink))
        return True

    def _start(self, sink: CheckpointedSink) -> None:
        sink.restore(None)
        sink.flush(self._position())

    async def _write(self, sink: CheckpointedSink, thread: ThreadPoolExecutor, stop: asyncio.Event) -> None:
        until = math.inf
        while time.monotonic() < until and await self._renew():
            entries = await self._streams.read(self._positions, count=self._count)
            if stop.is_set():
                until = min(until, time.monotonic() + STOP_GRACE_S)
                if not entries:
                    break
            if not entries:
                self._failure = ""
                await self._send_positions(range(self._store.shards))
                await self._streams.wait(self._positions, seconds=self._poll_s, stop=stop)
                continue
            if self._are_durable(entries):
                await self._send_positions({entry.shard for entry in entries})
            else:
                await self._make_durable(entries)
                if not self._are_durable(entries):
                    continue  # the store has lost some of them
            if not self._election.holds():
                continue  # that took so long that another worker may have been elected
            self._positions = self._positions | _last(entries)
            items, unreadable = _items(entries)
            self._set_state(WriterState.WRITING)  # for as long as it takes
            await _in(thread, partial(self._put, sink, items))
            self._set_state(WriterState.WAITING)
            for shard, id, why in unreadable:
                await self._set_aside(shard, id, why)
            self.items, self._written_at, self._failure = self.items + len(items), time.monotonic(), ""
            found = Counter(entry.shard for entry in entries)
            if max(found.values()) < self._count:  # these were all entries
                await self._send_positions(found)
                await _sleep(stop, _GATHER_S)
            self._count = max(ROUND_ENTRIES // len(found), MIN_SHARD_ENTRIES)
        if stop.is_set() and self._election.holds():
            await _in(thread, lambda: sink.finish(self._position()))
            await self._send_positions(range(self._store.shards))

    async def _set_aside(self, shard: int, id: str, why: str) -> None:
        """Move an entry whose items cannot be read to the quarantine; the output is past it already."""
        entry = UnreadableEntry(self._streams.key(shard), "stream", id.encode(), why)
        await Quarantine(self._store).move(self._store.tag(shard), self._output.crawl, [entry])

    async def _renew(self) -> bool:
        return self._election.holds() if self._failure else await self._election.renew()

    def _put(self, sink: CheckpointedSink, items: Sequence[Item]) -> None:
        sink.write(items)
        sink.flush(self._position())

    def _position(self) -> bytes:
        return msgspec.msgpack.encode(WriterPosition(self._election.owner, self._positions))

    async def _send_positions(self, shards: Iterable[int]) -> None:
        """Send the positions of the output to the shards that do not have them."""
        if self._sent_servers != self._store.servers_met:
            self._sent_servers, self._sent = self._store.servers_met, {}

        async def send(shard: int) -> None:
            position = self._shard_position(shard)
            await self._store.run(_SCRIPT, self._store.tag(shard), self._arguments(shard))
            self._sent[shard] = position

        await fan_out(send(shard) for shard in shards if self._sent.get(shard) != self._shard_position(shard))

    async def _make_durable(self, entries: Sequence[StreamEntry]) -> None:
        """Wait until the shards cannot lose the entries, nor any other that they have now."""
        calls = {
            self._store.tag(shard): self._arguments(shard, last) for shard, last in _last(entries).items()
        }
        ends = await self._store.run_durable(_SCRIPT, calls, connection=self._election.connection)
        for shard in _last(entries):
            self._durable[shard] = ends[self._store.tag(shard)].decode()
            self._sent[shard] = self._shard_position(shard)

    def _are_durable(self, entries: Iterable[StreamEntry]) -> bool:
        return all(
            _id_parts(last) <= _id_parts(self._durable.get(shard, START))
            for shard, last in _last(entries).items()
        )

    def _shard_position(self, shard: int) -> str:
        return self._positions.get(shard, START)

    def _arguments(self, shard: int, last: str = "") -> list[str]:
        names = [public_name(output) for output in self._output.all]
        return [str(self._output.crawl), self._name, self._shard_position(shard), last, *names]


def _retry_delay(remaining_s: float, handover_s: float) -> float:
    """Return the seconds until a writer that has failed tries again.

    If its term ends before that, it waits longer, so that standby workers can take over first.
    """
    return remaining_s + handover_s if 0 < remaining_s <= _RETRY_S else _RETRY_S


def _last(entries: Iterable[StreamEntry]) -> dict[int, str]:
    """Return the id of the last entry of each shard; the entries of a shard are in order."""
    return {entry.shard: entry.id for entry in entries}


def _id_parts(id: str) -> tuple[int, int]:
    """Split the id of an entry into milliseconds and sequence number, for comparing."""
    ms, _, number = id.partition("-")
    return int(ms), int(number)


def _items(entries: Iterable[StreamEntry]) -> tuple[list[Item], list[tuple[int, str, str]]]:
    """Return the items of entries, and shard, id and reason of the entries that cannot be read."""
    items: list[Item] = []
    unreadable: list[tuple[int, str, str]] = []
    for entry in entries:
        try:
            items += _unpack(entry.fields[b"items"])
        except (msgspec.DecodeError, ValueError, KeyError) as error:
            unreadable.append((entry.shard, entry.id, f"{type(error).__name__}: {error}"))
    return items, unreadable


async def _in(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
