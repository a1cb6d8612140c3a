"""What a process has counted to find crawler traps, as it is stored with the crawl.

Every worker of a fleet stores its counts under its own name, and adds up those of all others.
"""

import msgspec

PART = "traps/"  # followed by the name of a worker
MAX_NAMES = 500  # stored of each kind, those with the highest counts


class TrapCounts(msgspec.Struct):
    urls: dict[str, int] = {}  # new URLs by pattern, within the last hour
    alike: dict[str, int] = {}  # near-duplicate pages by pattern
    identical: dict[str, int] = {}  # pages with the same text, by shape and text
    shapes: dict[str, int] = {}  # pages by shape
    sites: dict[str, int] = {}  # requests by site, if they are limited
    at: float = 0.0  # epoch seconds

    @classmethod
    def load(cls, stored: bytes | None) -> "TrapCounts":
        """Return what was stored; nothing, if that cannot be read: a trap is found again."""
        try:
            return cls() if stored is None else msgspec.msgpack.decode(stored, type=cls)
        except msgspec.DecodeError:
            return cls()

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self)
