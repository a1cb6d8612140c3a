"""Which shard to ask for work next: one that may have requests, preferably better ones.

Every shard has its own order, best priority first. Across shards the order is approximate: of two random
shards that are due, the one with the better request goes first. A shard without work reports for how long;
links that other workers add there are noticed at the next poll, after some seconds at most. If other workers
are faster again and again, there are more workers than work, and polling more often would not help.
"""

import math
import random
from collections.abc import Callable, Collection, Sequence

# Growing pauses between polls of a shard without work: with 16 shards an idle worker makes a little more than
# one call per second.
IDLE_FIRST_S, IDLE_LONGEST_S = 0.5, 12.0
# The crawls of one worker together poll as often as this many; but each of them once per minute.
POLLING_CRAWLS, LONGEST_POLL_S = 16, 60.0
# Growing pauses before the next poll of a shard that had announced work which another worker took.
OVERTAKEN_FIRST_S, OVERTAKEN_LONGEST_S = 0.02, 1.0


class ShardPicker:
    def __init__(self, shards: int, clock: Callable[[], float]) -> None:
        self.longest_idle_s = IDLE_LONGEST_S
        self.used_at = clock()
        self._clock = clock
        self._shards = range(shards)
        self._poll_at = [-math.inf] * shards  # when to poll again
        self._ready_at = [-math.inf] * shards  # when the shard has work again, as it reported
        self._best = [0.0] * shards
        self._idle = [IDLE_FIRST_S] * shards
        self._overtaken = [OVERTAKEN_FIRST_S] * shards

    def pick(self, asked: Collection[int], at_once: int = 1) -> Sequence[int]:
        """Return up to `at_once` shards that are due and not in `asked`; at least one if `asked` is empty."""
        now = self.used_at = self._clock()
        due = [shard for shard in self._shards if self._poll_at[shard] <= now and shard not in asked]
        if not due:
            return () if asked else (min(self._shards, key=self._poll_at.__getitem__),)
        if at_once == 1:
            return (min(random.sample(due, min(len(due), 2)), key=self._best.__getitem__),)
        random.shuffle(due)
        return sorted(due, key=self._best.__getitem__)[:at_once]

    def record(self, shard: int, *, found: int, wait: float, best: float) -> None:
        """Record the answer of a shard: requests granted, seconds until it has work again, best band left."""
        now = self._clock()
        overtaken = not found and -math.inf < self._ready_at[shard] <= now
        self._ready_at[shard], self._best[shard] = now + wait, best
        if wait == 0:
            self._poll_at[shard], self._idle[shard] = now, IDLE_FIRST_S
        else:
            # Jitter: workers that became idle together must not poll together.
            jitter = random.uniform(0.75, 1.25)
            least = self._overtaken[shard] * jitter if overtaken else 0.0
            self._poll_at[shard] = now + min(max(wait, least), self._idle[shard] * jitter)
            self._idle[shard] = min(self._idle[shard] * 2, self.longest_idle_s)
        longer = min(self._overtaken[shard] * 2, OVERTAKEN_LONGEST_S)
        self._overtaken[shard] = longer if overtaken else OVERTAKEN_FIRST_S

    def wake(self, shard: int) -> None:
        """Poll a shard as soon as possible: something was added or changed there."""
        self._poll_at[shard] = self._ready_at[shard] = -math.inf
        self._best[shard], self._idle[shard] = 0.0, IDLE_FIRST_S

    @property
    def wait(self) -> float:
        """Seconds until some shard has work, as far as they reported."""
        return max(min(self._ready_at) - self._clock(), 0.0)

    @property
    def next_look(self) -> float:
        """Seconds until a shard should be polled again: other workers may have added links."""
        return max(min(self._poll_at) - self._clock(), 0.0)


def longest_idle_s(pickers: int) -> float:
    """Return the seconds between two polls of a shard without work, by how many are polling."""
    return min(IDLE_LONGEST_S * max(1.0, pickers / POLLING_CRAWLS), LONGEST_POLL_S)


class ShardPickers:
    """A picker for each set of crawls that is leased together: what a shard has for one crawl says nothing
    about another.
    """

    def __init__(self, shards: int, clock: Callable[[], float]) -> None:
        self._shards = shards
        self._clock = clock
        self._pickers: dict[tuple[str, ...] | None, ShardPicker] = {}  # None: every crawl that is open

    def of(self, crawls: tuple[str, ...] | None) -> ShardPicker:
        """Return the picker of some crawls; a new one removes those that are not in use any more."""
        if crawls not in self._pickers:
            oldest = self._clock() - LONGEST_POLL_S
            self._pickers = {key: one for key, one in self._pickers.items() if one.used_at >= oldest}
            self._pickers[crawls] = ShardPicker(self._shards, self._clock)
            longest = longest_idle_s(len(self._pickers))
            for picker in self._pickers.values():
                picker.longest_idle_s = longest
        return self._pickers[crawls]

    def wake(self, shard: int, crawls: Collection[str] | None = None) -> None:
        """Have a shard polled soon, for some crawls or for all: something was added or changed there."""
        for key, picker in self._pickers.items():
            if crawls is None or key is None or any(crawl in crawls for crawl in key):
                picker.wake(shard)

    def wake_all(self, crawls: Collection[str] | None = None) -> None:
        """Have every shard polled soon."""
        for shard in range(self._shards):
            self.wake(shard, crawls)
