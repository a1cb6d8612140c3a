"""Which version of a spider has parsed which page.

A version is the digest of the spider's source. A page's record holds only its number, a byte as a rule; what
the numbers mean is kept once per crawl, as is what was parsed again later. Both lists are bounded: of a
spider that is changed every hour for weeks, the oldest versions are numbers without a name.
"""

import msgspec

KEY = "versions"
KEPT = 200  # versions of a crawl that are remembered, and as many reparses


class SpiderVersion(msgspec.Struct, frozen=True):
    digest: str
    since: float  # epoch seconds at which a run first used it


class Reparse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pages of the crawl that were parsed again into another output: which, by what and when."""

    digest: str
    at: float  # epoch seconds
    out: str
    match: str = ""
    status: int | None = None
    since: float | None = None
    until: float | None = None
    limit: int | None = None


class SpiderVersions(msgspec.Struct):
    """What a crawl remembers of the code that it was parsed with."""

    last: int = 0  # number of the newest version
    known: dict[int, SpiderVersion] = {}
    again: list[Reparse] = []

    @classmethod
    def load(cls, stored: bytes | None) -> "SpiderVersions":
        return cls() if stored is None else msgspec.json.decode(stored, type=cls)

    def dump(self) -> bytes:
        return msgspec.json.encode(self)

    def number(self, digest: str, now: float) -> int:
        """Give the number of a version; one that is not known gets the next."""
        for number, version in self.known.items():
            if version.digest == digest:
                return number
        self.last += 1
        self.known[self.last] = SpiderVersion(digest, now)
        self.known.pop(self.last - KEPT, None)
        return self.last

    def note(self, reparse: Reparse) -> None:
        """Remember a reparse."""
        self.again = [*self.again, reparse][-KEPT:]
