"""Dead letters from outside a crawl: choosing them, reading them, putting them back, throwing them away.

Reading needs no ownership and works while a crawl runs. The rest does need it where a store has an owner, so
there it is refused, naming the owner, while somebody else has the store.
"""

import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from shoal.frontier.results import DeadLetter
from shoal.model.errors import Rejected
from shoal.model.failure import FailureClass
from shoal.model.url import canonical
from shoal.stores.access import DeadLetterAction, StoreReader, StoreWriter, chosen, open_reader, open_writer

__all__ = ["DeadLetter", "DeadLetterFilter", "dead_letters", "find_letters", "purge", "replay"]


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters are meant; as it stands: all of them."""

    crawl: str | None = None
    kind: FailureClass | None = None
    host: str = ""
    older: float | None = None  # seconds that it has been dead, at least
    newer: float | None = None  # seconds that it has been dead, at most
    match: re.Pattern[str] | None = None  # found anywhere in its URL
    limit: int | None = None

    @property
    def kinds(self) -> tuple[FailureClass, ...]:
        return () if self.kind is None else (self.kind,)

    @property
    def by_looking(self) -> bool:
        """Whether letters have to be looked at one by one."""
        return self.older is not None or self.newer is not None or self.match is not None

    def takes(self, letter: DeadLetter, now: float) -> bool:
        """Judge what the store cannot: age and URL."""
        age = now - letter.died_at
        return (
            (self.older is None or age >= self.older)
            and (self.newer is None or age <= self.newer)
            and (self.match is None or self.match.search(letter.request.url) is not None)
        )


async def dead_letters(store: str, choice: DeadLetterFilter) -> list[DeadLetter]:
    """Give the dead letters that are meant, the latest first."""
    found: list[DeadLetter] = []
    async with open_reader(store) as reader:
        for name in await chosen(reader, choice.crawl):
            of_crawl = 0
            async for letter in _letters(reader, name, choice):
                found.append(letter)
                of_crawl += 1
                if of_crawl == choice.limit:
                    break
    return sorted(found, key=lambda letter: -letter.died_at)[: choice.limit]


async def find_letters(store: str, crawl: str | None, asked: str) -> list[DeadLetter]:
    """Find the letters that are known by a trace id or a URL: at most one of each crawl and method."""
    wanted = asked.strip().lower()
    try:
        url = canonical(asked)
    except Rejected:
        url = ""
    async with open_reader(store) as reader:
        return [
            letter
            for name in await chosen(reader, crawl)
            async for letter in reader.dead_letters(name)
            if letter.trace == wanted or letter.request.url == url
        ]


async def replay(store: str, choice: DeadLetterFilter) -> int:
    """Put dead letters back into the queue; returns how many. Whoever crawls next takes them up."""
    return await _treat(store, choice, lambda frontier: frontier.dead_letters.replay)


async def purge(store: str, choice: DeadLetterFilter) -> int:
    """Throw dead letters away; returns how many. Their requests stay counted as dead."""
    return await _treat(store, choice, lambda frontier: frontier.dead_letters.purge)


async def _treat(store: str, choice: DeadLetterFilter, how: Callable[[StoreWriter], DeadLetterAction]) -> int:
    async with open_reader(store) as reader:  # before owning it, which would make one where there is none
        names = await chosen(reader, choice.crawl)
    count = 0
    async with open_writer(store, names) as frontier:
        treat = how(frontier)
        for name in names:
            count += await treat(
                name,
                classes=choice.kinds,
                host=choice.host,
                fingerprints=await _looked_up(frontier.reader, name, choice),
                limit=None if choice.limit is None else choice.limit - count,
            )
    return count


_NONE = (-1,)  # no request has this fingerprint


async def _looked_up(frontier: StoreReader, crawl: str, choice: DeadLetterFilter) -> tuple[int, ...]:
    """Name the letters that have to be looked at; nothing: all that the store can choose by itself."""
    if not choice.by_looking:
        return ()
    return tuple([letter.fingerprint async for letter in _letters(frontier, crawl, choice)]) or _NONE


async def _letters(reader: StoreReader, crawl: str, choice: DeadLetterFilter) -> AsyncIterator[DeadLetter]:
    now = time.time()
    async for letter in reader.dead_letters(crawl, classes=choice.kinds, host=choice.host):
        if choice.takes(letter, now):
            yield letter
