"""Names of segments: they sort in the order in which the segments were written.

Parts of the fetch log have the same names with another suffix, in a separate folder.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from urllib.parse import quote

from shoal.model.errors import Rejected

_NAME = re.compile(
    r"(?P<crawl>[^/\0]+)-(?P<day>\d{8})-(?P<number>\d{5,9})"
    r"(?P<suffix>\.warc\.gz|\.log|\.attempts|\.parquet)",
    re.ASCII,
)
WARC = ".warc.gz"
_MAX_CRAWL_CHARS = 120  # of the part for the crawl; file systems allow 255 bytes in all


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    day: date
    number: int
    crawl: str
    suffix: str = WARC

    def __str__(self) -> str:
        return f"{self.crawl}-{self.day:%Y%m%d}-{self.number:05d}{self.suffix}"

    @classmethod
    @lru_cache(maxsize=64)
    def parse(cls, name: str) -> "SegmentName":
        """Parse the name of a segment; raise `Rejected` for anything else, paths in particular."""
        found = _NAME.fullmatch(name)
        try:
            if found is None:
                raise ValueError
            day, number = date.fromisoformat(found["day"]), int(found["number"])
            return cls(day, number, found["crawl"], found["suffix"])
        except ValueError:
            raise Rejected(f"not the name of an archive segment: {name[:200]!r}") from None

    def following(self, day: date) -> "SegmentName":
        """Return the next name. Days never decrease, even if the clock is set back: names have to sort."""
        if day > self.day:
            return SegmentName(day, 1, self.crawl, self.suffix)
        return SegmentName(self.day, self.number + 1, self.crawl, self.suffix)


def file_name(crawl: str) -> str:
    """Return the name of a crawl as part of a file name; different names stay different."""
    quoted = quote(crawl, safe="")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if not quoted or len(quoted) > _MAX_CRAWL_CHARS:
        quoted = quoted[:_MAX_CRAWL_CHARS] + "%" + hashlib.sha256(crawl.encode()).hexdigest()[:16]
    return quoted
