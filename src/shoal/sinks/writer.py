"""One output of a crawl, fed from the item streams of a fleet's store: every item once.

In a fleet the store is the way to the sinks. A page that is settled leaves its items in the stream of its
shard, in the same step; one worker at a time (`election.py`) reads the streams of all shards from positions
of its own and writes them to the output. Nothing but the output knows these positions for sure: they are the
note that it keeps with what was written (`noted.py`). The order of one round is what the promise rests on:

1. Read entries after the positions.
2. Tell their shards how far the output had come before, and wait until a replica has that. Then it has the
   entries, too, for they are older: what is about to be written cannot be forgotten by a change of masters.
3. Write and flush the items; the note with the new positions is kept with them.

A kill before 3 ends leaves positions as they were: the next writer cuts the output back to its note and reads
the same entries again. A kill after 3 leaves entries that no position asks for. Shards drop entries that
every output of the crawl is known to have, and those are told in step 2 of a later round, never too early.

A writer that has lost its place and does not know it yet is stopped by the output itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TypeVar

import msgspec

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks.election import TERM, Election
from shoal.sinks.files import refuse
from shoal.sinks.names import shown
from shoal.sinks.noted import Note, NotedSink, open_noted
from shoal.stores.redis import RedisStore, Script
from shoal.stores.redis.streams import START, Entry, ShardStreams
from shoal.stores.redis.together import together

log = logging.getLogger(__name__)

COUNT = 32  # pages of each shard that one round takes
_AGAIN = 1.0  # seconds after which what was unavailable is tried again
_SCRIPT = Script("written", resources.files("shoal.sinks").joinpath("written.lua").read_text())
_unpack = msgspec.msgpack.Decoder(list[Item]).decode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Output:
    """One of the outputs of a crawl."""

    crawl: int  # its number in the store
    output: str  # spelled alike on every machine, so a file by its full path
    all: Sequence[str]  # the crawl's outputs, this one included: entries stay until each of them has them
    fsync: bool = False
    overwrite: bool = False


def item_streams(store: RedisStore, crawl: int) -> ShardStreams:
    """Give the streams of a crawl's items; their length is what the outputs still lack."""
    return ShardStreams(store, f"items:{crawl}")


class OutputWriter:
    """Feeds one output whenever no other worker does."""

    def __init__(
        self, store: RedisStore, output: Output, *, holder: str, node: str, term: float = TERM
    ) -> None:
        self._store = store
        self._output = output
        self._name = shown(output.output)
        self._streams = item_streams(store, output.crawl)
        self._election = Election(store, output.crawl, output.output, holder=holder, node=node, term=term)
        self._patience = term / 3  # seconds of waiting for entries, so that the place is kept meanwhile
        self._positions: dict[int, str] = {}
        self._told: dict[int, str] = {}  # what the shards know of them

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop` is set, then finish the output. Raises `Misconfigured` if it cannot be written.

        What is unavailable, the store or the output, is waited for.
        """
        while not stop.is_set():
            try:
                wait = await self._election.stand()
                if not wait:
                    await self._serve(stop)
            except Unavailable as error:
                log.warning("output.waits", extra={"output": self._name, "why": str(error)})
                wait = _AGAIN
            await _sleep(stop, wait)

    async def _serve(self, stop: asyncio.Event) -> None:
        sink = open_noted(self._output.output, fsync=self._output.fsync, overwrite=self._output.overwrite)
        # One thread, so that whatever ends this, the sink is closed after its last call has returned.
        with ThreadPoolExecutor(1, thread_name_prefix="shoal.output") as thread:
            try:
                await _in(thread, lambda: self._open(sink))
                log.info("output.opened", extra={"output": self._name})
                await self._write(sink, thread, stop)
            except Misconfigured:
                if self._election.holds():
                    raise
                log.info("output.lost", extra={"output": self._name})  # found out by the output itself
            finally:
                thread.submit(sink.close)
        if self._election.holds():
            await self._election.step_down()

    def _open(self, sink: NotedSink) -> None:
        """Take the output back to its note, or make it this crawl's own."""
        self._told = {}
        kept = sink.kept()
        if kept is not None:
            note = msgspec.msgpack.decode(kept[1], type=Note)
            if note.owner == self._election.owner:
                sink.restore(kept[0])
                self._positions = note.positions
                return
            if not self._output.overwrite:
                raise refuse(self._name)
        sink.restore(None)
        self._positions = {}
        sink.flush(self._note())

    async def _write(self, sink: NotedSink, thread: ThreadPoolExecutor, stop: asyncio.Event) -> None:
        while not stop.is_set() and await self._election.keep():
            entries = await self._streams.read(self._positions, count=COUNT)
            if not entries:
                await self._tell(range(self._store.shards))
                await self._streams.wait(self._positions, seconds=self._patience, stop=stop)
                continue
            await self._tell({entry.shard for entry in entries}, promised=True)
            if not self._election.holds():
                continue  # that took so long that somebody else may have been chosen
            self._positions = self._positions | {entry.shard: entry.id for entry in entries}
            await _in(thread, partial(self._put, sink, _items(entries)))
        if stop.is_set() and self._election.holds():
            await _in(thread, lambda: sink.finish(self._note()))
            await self._tell(range(self._store.shards))

    def _put(self, sink: NotedSink, items: Sequence[Item]) -> None:
        sink.write(items)
        sink.flush(self._note())

    def _note(self) -> bytes:
        return msgspec.msgpack.encode(Note(self._election.owner, self._positions))

    async def _tell(self, shards: Iterable[int], *, promised: bool = False) -> None:
        """Tell shards what the output has; `promised`: even if they know, for a replica's sake."""
        names = [shown(output) for output in self._output.all]

        async def tell(shard: int, position: str) -> None:
            arguments = [str(self._output.crawl), self._name, position, *names]
            await self._store.run(_SCRIPT, self._store.tag(shard), arguments, promised=promised)
            self._told[shard] = position

        positions = {shard: self._positions.get(shard, START) for shard in shards}
        await together(
            tell(shard, position)
            for shard, position in positions.items()
            if promised or self._told.get(shard) != position
        )


def _items(entries: Iterable[Entry]) -> list[Item]:
    return [item for entry in entries for item in _unpack(entry.fields[b"items"])]


async def _in(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
