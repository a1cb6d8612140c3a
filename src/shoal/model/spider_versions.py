"""Which version of a spider has parsed which page.

A version is the digest of the spider's source. A page record holds only a number, usually one byte; the crawl
stores the digest of each number once, and its reparses. Both lists are bounded: if a spider is changed every
hour for weeks, the digests of the oldest versions are dropped.
"""

import msgspec

KEY = "versions"
KEPT = 200  # versions of a crawl, and as many reparses


class SpiderVersion(msgspec.Struct, frozen=True):
    digest: str
    since: float  # epoch seconds at which a run first used it


class Reparse(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of `shoal reparse`: by which version, when, into which output, and which pages."""

    digest: str
    at: float  # epoch seconds
    out: str
    match: str = ""
    status: int | None = None
    since: float | None = None
    until: float | None = None
    limit: int | None = None


class SpiderVersions(msgspec.Struct):
    """The spider versions of a crawl, and its reparses."""

    last: int = 0  # number of the newest version
    known: dict[int, SpiderVersion] = {}
    reparses: list[Reparse] = msgspec.field(default_factory=list, name="again")

    @classmethod
    def load(cls, stored: bytes | None) -> "SpiderVersions":
        return cls() if stored is None else msgspec.json.decode(stored, type=cls)

    def dump(self) -> bytes:
        return msgspec.json.encode(self)

    def number(self, digest: str, now: float) -> int:
        """Return the number of a version; a new version gets the next number."""
        for number, version in self.known.items():
            if version.digest == digest:
                return number
        self.last += 1
        self.known[self.last] = SpiderVersion(digest, now)
        self.known.pop(self.last - KEPT, None)
        return self.last

    def add_reparse(self, reparse: Reparse) -> None:
        self.reparses = [*self.reparses, reparse][-KEPT:]
