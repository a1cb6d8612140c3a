"""What a worker has done, in figures."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CrawlStats:
    """What a worker has done for one crawl."""

    pages: int = 0
    items: int = 0
    bytes: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)  # attempts, by class
    handed_on: int = 0  # pages that were fetched here and are parsed by another worker, which counts them

    def __add__(self, other: "CrawlStats") -> "CrawlStats":
        return CrawlStats(
            self.pages + other.pages,
            self.items + other.items,
            self.bytes + other.bytes,
            Counter(self.failures) + Counter(other.failures),
            self.handed_on + other.handed_on,
        )


@dataclass(frozen=True, slots=True)
class WorkerStats:
    slots: int  # 0: this worker does not fetch
    busy: int
    draining: bool
    done: Mapping[str, CrawlStats]  # by crawl
