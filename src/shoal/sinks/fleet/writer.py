"""One output of a crawl, fed from the item streams of a fleet's store: every item once.

In a fleet the store is the way to the sinks. A page that is settled leaves its items in the stream of its
shard, in the same step; one worker at a time (`election.py`) reads the streams of all shards from positions
of its own and writes them to the output. Nothing but the output knows these positions for sure: they are the
note that it keeps with what was written (`noted.py`). The order of one round is what the promise rests on:

1. Read entries after the positions.
2. Tell their shards how far the output had come before, and wait until that is on a replica and on disk, as
   far as the store has them. Then the entries are there, too, for they are older: what is about to be written
   cannot be forgotten by a server that is killed, loses power or is replaced. A shard answers in the same
   step whether it still has them (it may have been restarted since 1), and how far its stream goes: what is
   read from there in later rounds is as sure, and waits for nothing. So one wait does for all that has piled
   up, however long it takes.
3. Write and flush the items; the note with the new positions is kept with them.

Where that was all there is, the shards are told at once, and the next round waits a moment for more.

A kill before 3 ends leaves positions as they were: the next writer cuts the output back to its note and reads
the same entries again. A kill after 3 leaves entries that no position asks for. Shards drop entries that
every output of the crawl is known to have, and those are told in step 2 of a later round, never too early.

A store that goes back to an earlier instant forgets pages that were settled since, and their entries with
them, for the two are one step of a script. They are fetched again; and none of their items was written.

A writer that has lost its place and does not know it yet is stopped by the output itself.

A writer whose output fails asks for no more time until something is written. It tries again for as long as
its term lasts; then whoever stands by has the first try, for it may reach what this one does not.
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
from shoal.redis_client.script import load_script
from shoal.redis_client.streams import START, ShardStreams, StreamEntry
from shoal.sinks.files import refuse
from shoal.sinks.fleet.checkpointed import CheckpointedSink, SinkNote, open_checkpointed
from shoal.sinks.fleet.election import TERM, Election
from shoal.sinks.names import shown

log = logging.getLogger(__name__)

ROUND = 256  # pages that one round takes, about, and at the least so many of each shard:
LEAST = 16
_GATHER = 0.1  # seconds between rounds that take all there is: each keeps a note, whatever it brings
_AGAIN = 1.0  # seconds after which what was unavailable is tried again
_COURTESY = 1 / 5  # of a term, which a writer that failed leaves others for taking its place
_REMIND = 60.0  # seconds between two lines of the log about the same trouble
_FAREWELL = 5.0  # seconds for writing what is there when the writer is asked to stop
_LATELY = 5.0  # seconds after an item was written, for which that counts as writing
_SCRIPT = load_script("shoal.sinks.fleet", "written")
_unpack = msgspec.msgpack.Decoder(list[Item]).decode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriterOutput:
    """One of the outputs of a crawl."""

    crawl: int  # its number in the store
    output: str  # spelled alike on every machine, so a file by its full path
    all: Sequence[str]  # the crawl's outputs, this one included: entries stay until each of them has them
    fsync: bool = False
    overwrite: bool = False


class WriterState(StrEnum):
    """What a worker is to an output."""

    STANDING_BY = "standing by"  # another worker writes it
    ELSEWHERE = "elsewhere"  # it belongs to another machine
    FAILING = "failing"  # this worker should write it, and something is not available; it tries again
    WAITING = "waiting"  # this worker writes it, and there are no items
    WRITING = "writing"


def item_streams(store: RedisClient, crawl: int) -> ShardStreams:
    """Give the streams of a crawl's items; their length is what the outputs still lack."""
    return ShardStreams(store, partial(key_names.items, crawl=crawl))


class OutputWriter:
    """Feeds one output whenever no other worker does."""

    def __init__(
        self, store: RedisClient, output: WriterOutput, *, holder: str, node: str, term: float = TERM
    ) -> None:
        self._store = store
        self._output = output
        self._name = shown(output.output)
        self._streams = item_streams(store, output.crawl)
        self._election = Election(store, output.crawl, output.output, holder=holder, node=node, term=term)
        self._patience = term / 3  # seconds of waiting for entries, so that the place is kept meanwhile
        self._courtesy = term * _COURTESY
        self._positions: dict[int, str] = {}
        self._told: dict[int, str] = {}  # what the shards know of them
        self._told_to = 0  # so many server processes; another one may have forgotten it
        self._sure: dict[int, str] = {}  # by shard: up to here nothing can be forgotten
        self._post = WriterState.STANDING_BY
        self._fails = ""  # what is not available, since something was written last
        self._written_at = -math.inf  # monotonic
        self._complain_again = -math.inf  # likewise
        self.why = ""  # it does not write: what is not available, or which machine has the output
        self.items = 0  # that were written here
        self._count = LEAST  # pages of each shard that the next round takes

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop` is set, then finish the output. Raises `Misconfigured` if it cannot be written.

        What is unavailable, the store or the output, is waited for. If `stop` is set already, there is one
        try: a writer that was killed may have left the output unfinished (`standing.unfinished`).
        """
        while True:
            try:
                wait = 0.0 if self._fails and self._election.holds() else await self._election.stand()
                if self._election.elsewhere:
                    self._be(WriterState.ELSEWHERE, self._election.elsewhere)
                elif wait:
                    self._be(WriterState.STANDING_BY)
                else:
                    await self._serve(stop)
            except Unavailable as error:
                self._complain(str(error))
                wait = _next_try(self._election.left(), self._courtesy)
            await _sleep(stop, wait)
            if stop.is_set():
                return

    @property
    def post(self) -> WriterState:
        """What this worker is to the output now."""
        if self._post is WriterState.WAITING and time.monotonic() - self._written_at < _LATELY:
            return WriterState.WRITING
        return self._post

    def _complain(self, why: str) -> None:
        """Say what is not available: in the log when it is something new, and then now and then."""
        if self._fails != why or time.monotonic() > self._complain_again:
            log.warning("output.unavailable", extra={"output": self._name, "why": why})
            self._complain_again = time.monotonic() + _REMIND
        self._fails = why
        self._be(WriterState.FAILING, why)

    def _be(self, post: WriterState, why: str = "") -> None:
        self._post, self.why = post, why

    async def _serve(self, stop: asyncio.Event) -> None:
        sink = open_checkpointed(
            self._output.output, fsync=self._output.fsync, overwrite=self._output.overwrite
        )
        # One thread, so that whatever ends this, the sink is closed after its last call has returned.
        with ThreadPoolExecutor(1, thread_name_prefix="shoal.output") as thread:
            try:
                if await self._open(sink, thread):
                    log.info("output.opened", extra={"output": self._name})
                    self._be(WriterState.WAITING)
                    await self._write(sink, thread, stop)
            except Misconfigured:
                if self._election.holds():
                    raise
                log.info("output.lost", extra={"output": self._name})  # found out by the output itself
            finally:
                thread.submit(sink.close)
        self._be(WriterState.STANDING_BY)
        if self._election.holds():
            await self._election.step_down()

    async def _open(self, sink: CheckpointedSink, thread: ThreadPoolExecutor) -> bool:
        """Take the output back to its note, or make it this crawl's own; False: another one is to do that."""
        self._told, self._sure = {}, {}
        kept = await _in(thread, sink.kept)
        if kept is not None:
            note = msgspec.msgpack.decode(kept[1], type=SinkNote)
            if note.owner == self._election.owner:
                self._positions = note.positions
                await _in(thread, partial(sink.restore, kept[0]))
                return True
            if not self._output.overwrite:
                raise refuse(self._name)
        # The note will bear the output's name in the store: one that is forgotten there is a stranger's.
        if await self._election.stand(lasting=True):
            return False
        self._positions = {}
        await _in(thread, partial(self._begin, sink))
        return True

    def _begin(self, sink: CheckpointedSink) -> None:
        sink.restore(None)
        sink.flush(self._note())

    async def _write(self, sink: CheckpointedSink, thread: ThreadPoolExecutor, stop: asyncio.Event) -> None:
        until = math.inf
        while time.monotonic() < until and await self._keep_place():
            entries = await self._streams.read(self._positions, count=self._count)
            if stop.is_set():
                until = min(until, time.monotonic() + _FAREWELL)
                if not entries:
                    break
            if not entries:
                self._fails = ""
                await self._tell(range(self._store.shards))
                await self._streams.wait(self._positions, seconds=self._patience, stop=stop)
                continue
            if self._are_sure(entries):
                await self._tell({entry.shard for entry in entries})
            else:
                await self._make_sure(entries)
                if not self._are_sure(entries):
                    continue  # the store has forgotten some of them
            if not self._election.holds():
                continue  # that took so long that somebody else may have been chosen
            self._positions = self._positions | _last(entries)
            items = _items(entries)
            self._be(WriterState.WRITING)  # for as long as it takes
            await _in(thread, partial(self._put, sink, items))
            self._be(WriterState.WAITING)
            self.items, self._written_at, self._fails = self.items + len(items), time.monotonic(), ""
            found = Counter(entry.shard for entry in entries)
            if max(found.values()) < self._count:  # that was all
                await self._tell(found)
                await _sleep(stop, _GATHER)
            self._count = max(ROUND // len(found), LEAST)
        if stop.is_set() and self._election.holds():
            await _in(thread, lambda: sink.finish(self._note()))
            await self._tell(range(self._store.shards))

    async def _keep_place(self) -> bool:
        return self._election.holds() if self._fails else await self._election.keep()

    def _put(self, sink: CheckpointedSink, items: Sequence[Item]) -> None:
        sink.write(items)
        sink.flush(self._note())

    def _note(self) -> bytes:
        return msgspec.msgpack.encode(SinkNote(self._election.owner, self._positions))

    async def _tell(self, shards: Iterable[int]) -> None:
        """Tell shards what the output has, unless they know."""
        if self._told_to != self._store.servers_met:
            self._told_to, self._told = self._store.servers_met, {}

        async def tell(shard: int) -> None:
            position = self._position(shard)
            await self._store.run(_SCRIPT, self._store.tag(shard), self._arguments(shard))
            self._told[shard] = position

        await fan_out(tell(shard) for shard in shards if self._told.get(shard) != self._position(shard))

    async def _make_sure(self, entries: Sequence[StreamEntry]) -> None:
        """Have shards keep what was read, and all that they have, whatever becomes of the store."""
        calls = {
            self._store.tag(shard): self._arguments(shard, last) for shard, last in _last(entries).items()
        }
        ends = await self._store.run_durable(_SCRIPT, calls, connection=self._election.line)
        for shard in _last(entries):
            self._sure[shard] = ends[self._store.tag(shard)].decode()
            self._told[shard] = self._position(shard)

    def _are_sure(self, entries: Iterable[StreamEntry]) -> bool:
        return all(
            _halves(last) <= _halves(self._sure.get(shard, START)) for shard, last in _last(entries).items()
        )

    def _position(self, shard: int) -> str:
        return self._positions.get(shard, START)

    def _arguments(self, shard: int, last: str = "") -> list[str]:
        names = [shown(output) for output in self._output.all]
        return [str(self._output.crawl), self._name, self._position(shard), last, *names]


def _next_try(left: float, courtesy: float) -> float:
    """Give the seconds until a writer that failed tries again: not before others could take its place."""
    return left + courtesy if 0 < left <= _AGAIN else _AGAIN


def _last(entries: Iterable[StreamEntry]) -> dict[int, str]:
    """Give the last of the entries of each shard; they come in order."""
    return {entry.shard: entry.id for entry in entries}


def _halves(id: str) -> tuple[int, int]:
    """Take an id apart, for comparing: milliseconds, and a number within them."""
    ms, _, number = id.partition("-")
    return int(ms), int(number)


def _items(entries: Iterable[StreamEntry]) -> list[Item]:
    return [item for entry in entries for item in _unpack(entry.fields[b"items"])]


async def _in(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
