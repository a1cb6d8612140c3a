"""The wanted number of workers of each stage, once or repeatedly."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shoal.services.autoscale.observe import Observer, observe
from shoal.services.autoscale.rules import Recent, ScaleRules, StageLoad, Wanted, stabilize, wanted_workers


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A stage, its load, and the number of workers to run: `wanted`, without its short gaps."""

    load: StageLoad
    wanted: Wanted
    workers: int

    @property
    def name(self) -> str:
        """Return the stage for people: `fetch (http)`, `parse`."""
        return f"{self.load.role} ({self.load.pool})" if self.load.pool else self.load.role


class Recommender:
    """Computes recommendations from repeated looks at a store."""

    def __init__(self, observer: Observer, rules: ScaleRules) -> None:
        self._observer = observer
        self._rules = rules
        self._recent: dict[tuple[str, str], Recent] = {}

    async def look(self) -> list[Recommendation]:
        found = []
        for load in await self._observer.look():
            wanted = wanted_workers(load, self._rules)
            stage = (load.role, load.pool)
            self._recent[stage], workers = stabilize(
                self._recent.get(stage, Recent()), wanted.workers, time.time(), self._rules
            )
            found.append(Recommendation(load, wanted, workers))
        return found


async def recommend(
    dsn: str, rules: ScaleRules, *, span: float, repeat: bool = False
) -> AsyncIterator[list[Recommendation]]:
    """Yield the recommendations of a store, after two looks that are `span` seconds apart."""
    async with observe(dsn) as observer:
        await observer.look()  # the rates of the next one start here
        recommender = Recommender(observer, rules)
        while True:
            await asyncio.sleep(span)
            yield await recommender.look()
            if not repeat:
                return


def recommendation_json(found: Recommendation) -> dict[str, object]:
    load = found.load
    return {
        "role": load.role,
        "pool": load.pool,
        "queued": load.queued,
        "in_progress": load.in_progress,
        "inflow_per_s": round(load.inflow, 3),
        "drained_per_s": round(load.drained, 3),
        "ceiling_per_s": round(load.ceiling, 3) if math.isfinite(load.ceiling) else None,
        "worker_rate_per_s": round(load.worker_rate, 3) or None,
        "workers": load.workers,
        "wanted": found.workers,
        "limit": found.wanted.limit.value,
        "why": found.wanted.why,
    }
