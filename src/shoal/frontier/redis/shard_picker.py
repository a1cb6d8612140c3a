"""Which shard to ask next: one that may have something, and rather one that has something better.

Every shard keeps its own order, best priority first. Across shards the order is approximate: of two random
shards that are due, the one whose best request is better goes first. A shard that has nothing says for how
long; what others add there meanwhile is noticed when its turn comes again, after some seconds at most. Where
others are faster again and again, there are more workers than work, and asking more often would help nobody.
"""

import math
import random
from collections.abc import Callable, Collection

# Seconds between looks at a shard that has nothing, growing: with 16 shards an idle worker asks a little more
# than once a second.
IDLE_FIRST, IDLE_LONGEST = 0.5, 12.0
# Seconds before the next look at a shard that has promised something which somebody else took, growing.
OVERTAKEN_FIRST, OVERTAKEN_LONGEST = 0.02, 1.0


class ShardPicker:
    def __init__(self, shards: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._shards = range(shards)
        self._look = [-math.inf] * shards  # when to ask again
        self._promised = [-math.inf] * shards  # when asking again helps, if nobody adds or settles
        self._best = [0.0] * shards
        self._idle = [IDLE_FIRST] * shards
        self._overtaken = [OVERTAKEN_FIRST] * shards

    def pick(self, asked: Collection[int]) -> int | None:
        """Choose a shard; None: no other one is due. The first choice is never None."""
        now = self._clock()
        due = [shard for shard in self._shards if self._look[shard] <= now and shard not in asked]
        if due:
            return min(random.sample(due, min(len(due), 2)), key=self._best.__getitem__)
        return None if asked else min(self._shards, key=self._look.__getitem__)

    def heard(self, shard: int, *, found: int, wait: float, best: float) -> None:
        """Note what a shard answered: how much it had, and in how many seconds it has something again."""
        now = self._clock()
        overtaken = not found and -math.inf < self._promised[shard] <= now
        self._promised[shard], self._best[shard] = now + wait, best
        if wait == 0:
            self._look[shard], self._idle[shard] = now, IDLE_FIRST
        else:
            # Workers that became idle together must not come back together.
            chance = random.uniform(0.75, 1.25)
            least = self._overtaken[shard] * chance if overtaken else 0.0
            self._look[shard] = now + min(max(wait, least), self._idle[shard] * chance)
            self._idle[shard] = min(self._idle[shard] * 2, IDLE_LONGEST)
        longer = min(self._overtaken[shard] * 2, OVERTAKEN_LONGEST)
        self._overtaken[shard] = longer if overtaken else OVERTAKEN_FIRST

    def wake(self, shard: int) -> None:
        """Note that there is something new in a shard."""
        self._look[shard] = self._promised[shard] = -math.inf
        self._best[shard], self._idle[shard] = 0.0, IDLE_FIRST

    def wake_all(self) -> None:
        for shard in self._shards:
            self.wake(shard)

    @property
    def wait(self) -> float:
        """Seconds until some shard has something, as far as they have said."""
        return max(min(self._promised) - self._clock(), 0.0)

    @property
    def next_look(self) -> float:
        """Seconds until a shard should be asked again, whatever it said: others may have added."""
        return max(min(self._look) - self._clock(), 0.0)
