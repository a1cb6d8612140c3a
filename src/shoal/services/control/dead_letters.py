"""Dead letters: choosing, reading, replaying and purging them.

Reading works while a crawl runs. Replaying and purging need the store: where a running crawl owns it, they
are refused with `StoreBusy`, which names the owner.
"""

import heapq
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from shoal.frontier.contract import FrontierDeadLetters
from shoal.frontier.results import DeadLetter, LetterPosition
from shoal.model.errors import Rejected
from shoal.model.failure import FailureClass
from shoal.model.page import PageRef
from shoal.model.url import canonical
from shoal.stores.contract.store import Store, select_crawls
from shoal.stores.open import open_store

__all__ = [
    "DeadLetter",
    "DeadLetterFilter",
    "LetterCursor",
    "LetterPage",
    "dead_letter_json",
    "dead_letters",
    "find_letters",
    "page_of_letters",
    "purge",
    "replay",
]


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A choice of dead letters; by default all of them."""

    crawl: str | None = None
    kind: FailureClass | None = None
    host: str = ""
    older: float | None = None  # seconds since it died, at least
    newer: float | None = None  # seconds since it died, at most
    match: re.Pattern[str] | None = None  # found anywhere in its URL
    limit: int | None = None
    trace: str = ""  # of the one letter that is chosen

    @property
    def kinds(self) -> tuple[FailureClass, ...]:
        return () if self.kind is None else (self.kind,)

    @property
    def needs_scan(self) -> bool:
        """Return whether letters have to be read one by one."""
        return self.older is not None or self.newer is not None or self.match is not None

    def takes(self, letter: DeadLetter, now: float) -> bool:
        age = now - letter.died_at
        return (
            (self.older is None or age >= self.older)
            and (self.newer is None or age <= self.newer)
            and (self.kind is None or letter.kind is self.kind)
            and (not self.host or letter.host == self.host)
            and (self.match is None or self.match.search(letter.request.url) is not None)
        )


LetterCursor = tuple[float, str, float, int]
"""When a letter died, its crawl, its ordinal, its fingerprint: letters are listed by these, latest first."""


class LetterPage(msgspec.Struct, frozen=True):
    """A part of the list of dead letters."""

    letters: Sequence[DeadLetter]
    searched: int  # letters that were looked at
    after: LetterCursor | None  # where the next page continues; None: there are no more


async def dead_letters(dsn: str, choice: DeadLetterFilter) -> list[DeadLetter]:
    """Return the dead letters that the filter takes, the latest first."""
    async with open_store(dsn) as store:
        return await read_dead_letters(store, choice)


async def read_dead_letters(store: Store, choice: DeadLetterFilter) -> list[DeadLetter]:
    """Do what `dead_letters` does for a store that is open."""
    found: list[DeadLetter] = []
    for name in await select_crawls(store, choice.crawl):
        of_crawl = 0
        async for letter in _letters(store, name, choice):
            found.append(letter)
            of_crawl += 1
            if of_crawl == choice.limit:
                break
    return sorted(found, key=lambda letter: letter.position, reverse=True)[: choice.limit]


async def page_of_letters(
    dsn: str, choice: DeadLetterFilter, *, after: LetterCursor | None, limit: int, max_s: float
) -> LetterPage:
    """Return the next letters that the filter takes, the latest first.

    Looks at letters for at most `max_s` seconds, so a page may have fewer letters than asked for, or none,
    although more follow.
    """
    ends_at = time.monotonic() + max_s
    found: list[DeadLetter] = []
    searched, last = 0, after
    async with open_store(dsn) as store:
        now = time.time()
        async for letter in _by_date(store, await select_crawls(store, choice.crawl), choice, after, now):
            if choice.newer is not None and now - letter.died_at > choice.newer:
                return LetterPage(found, searched, None)
            if len(found) == limit or (searched and time.monotonic() > ends_at):
                return LetterPage(found, searched, last)
            searched += 1
            last = cursor_of(letter)
            if choice.takes(letter, now):
                found.append(letter)
    return LetterPage(found, searched, None)


def cursor_of(letter: DeadLetter) -> LetterCursor:
    return (letter.died_at, letter.crawl, letter.ordinal, letter.fingerprint)


async def _by_date(
    store: Store, crawls: Sequence[str], choice: DeadLetterFilter, after: LetterCursor | None, now: float
) -> AsyncIterator[DeadLetter]:
    """Yield the letters of several crawls that follow a position, latest first."""
    latest = None if choice.older is None else (now - choice.older, math.inf, 0)
    sources: list[AsyncIterator[DeadLetter]] = []
    for crawl in crawls:
        before = latest if after is None else position_in(crawl, after)
        sources.append(store.frontier.dead_letters(crawl, before=before))
    heads = []
    for number, source in enumerate(sources):
        if (letter := await anext(source, None)) is not None:
            heads.append((_descending(letter), number, letter))
    heapq.heapify(heads)
    while heads:
        _, number, letter = heads[0]
        yield letter
        following = await anext(sources[number], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (_descending(following), number, following))


def _descending(letter: DeadLetter) -> tuple[float, tuple[int, ...], float, int]:
    names = tuple(-ord(character) for character in letter.crawl)
    return (-letter.died_at, (*names, 1), -letter.ordinal, -letter.fingerprint)


def position_in(crawl: str, after: LetterCursor) -> LetterPosition:
    """Return where the list of a crawl continues after a letter of the same or of another crawl."""
    died_at, of_crawl, ordinal, fingerprint = after
    if crawl == of_crawl:
        return (died_at, ordinal, fingerprint)
    # Of letters that died at the same instant, those of crawls with later names come first.
    return (died_at, 0.0 if crawl > of_crawl else math.inf, 0)


async def find_letters(dsn: str, crawl: str | None, wanted: str) -> list[DeadLetter]:
    """Return the letters with a trace id or a URL: at most one per crawl and method."""
    trace = wanted.strip().lower()
    try:
        url = canonical(wanted)
    except Rejected:
        url = ""
    async with open_store(dsn) as store:
        return [
            letter
            for name in await select_crawls(store, crawl)
            async for letter in store.frontier.dead_letters(name)
            if letter.trace == trace or letter.request.url == url
        ]


async def replay(dsn: str, choice: DeadLetterFilter) -> int:
    """Queue dead letters again; return how many. The next crawl, or any worker, fetches them."""
    return await _apply(dsn, choice, lambda letters: letters.replay)


async def purge(dsn: str, choice: DeadLetterFilter) -> int:
    """Delete dead letters; return how many. Their requests stay counted as dead."""
    return await _apply(dsn, choice, lambda letters: letters.purge)


class DeadLetterAction(Protocol):
    """`replay` or `purge` of a frontier."""

    async def __call__(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int: ...


async def _apply(
    dsn: str, choice: DeadLetterFilter, choose: Callable[[FrontierDeadLetters], DeadLetterAction]
) -> int:
    count = 0
    async with open_store(dsn) as store:
        names = await select_crawls(store, choice.crawl)
        async with store.change(names) as changes:
            action = choose(changes.dead_letters)
            for name in names:
                count += await action(
                    name,
                    classes=choice.kinds,
                    host=choice.host,
                    fingerprints=await _scan(store, name, choice),
                    limit=None if choice.limit is None else choice.limit - count,
                )
    return count


_NONE = (-1,)  # no request has this fingerprint


async def _scan(store: Store, crawl: str, choice: DeadLetterFilter) -> tuple[int, ...]:
    """Return the letters that the store cannot choose; empty: it can choose all by itself."""
    if choice.trace:
        return (int(choice.trace, 16),)
    if not choice.needs_scan:
        return ()
    return tuple([letter.fingerprint async for letter in _letters(store, crawl, choice)]) or _NONE


async def _letters(store: Store, crawl: str, choice: DeadLetterFilter) -> AsyncIterator[DeadLetter]:
    now = time.time()
    async for letter in store.frontier.dead_letters(crawl, classes=choice.kinds, host=choice.host):
        if choice.takes(letter, now):
            yield letter


def dead_letter_json(letter: DeadLetter) -> dict[str, object]:
    request = letter.request
    return {
        "crawl": letter.crawl,
        "url": request.url,
        "method": request.method,
        "host": letter.host,
        "class": letter.kind.value,
        "reason": letter.reason,
        "traceback": letter.detail,
        "status": letter.status,
        "attempts": letter.attempts,
        "crashes": letter.crashes,
        "first_at": letter.first_at,
        "died_at": letter.died_at,
        "holder": letter.holder,
        "trace": letter.trace,
        "depth": request.depth,
        "priority": request.priority,
        "route": request.route,
        "data": msgspec.to_builtins(request.data, str_keys=True),
        "found_on": f"{request.found_on:016x}" if request.found_on else None,
        "chain": list(request.chain),
        "page_kept": letter.page is not None,
        "page": None if letter.page is None else _place(letter.page.ref),
    }


def _place(ref: PageRef) -> list[str | int]:
    return [ref.segment, ref.offset, ref.length]
