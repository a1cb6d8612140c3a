"""What a crawl keeps of a page for its next generations. Pure: no clock, no I/O.

The archive has what a page yielded (`engine/generations/earlier`); a store keeps one small record per request
and generation, which leads there. It is written in the step that settles the request, so it is as exact as
the counters of the crawl.
"""

from enum import IntEnum

import msgspec

from shoal.model.page import PageRef


class PageFate(IntEnum):
    """How a request ended in a generation."""

    DONE = 0
    GONE = 1  # the site says that it does not exist: 404 or 410
    DEAD = 2  # given up, so nothing is known about the page


class PageHistory(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One request in one generation."""

    fate: PageFate = PageFate.DONE
    status: int = 0  # of the response
    result: PageRef | None = None  # what the page yielded; None: it was not parsed
    checked_at: int = 0  # epoch seconds of the last request for it
    first_seen: int = 0
    changed_at: int = 0  # when its content was last found to be another one
    checks: int = 0  # requests for it, over all generations
    changes: int = 0  # of these, those that found another content
    interval_s: int = 0  # seconds between two checks; 0: not known yet

    def checked(
        self, at: float, *, changed: bool, result: PageRef | None, status: int, interval_s: float
    ) -> "PageHistory":
        """Return the record after one more request for the page."""
        return PageHistory(
            PageFate.DONE,
            status,
            result,
            checked_at=int(at),
            first_seen=self.first_seen or int(at),
            changed_at=int(at) if changed else self.changed_at,
            checks=self.checks + 1,
            changes=self.changes + changed,
            interval_s=int(interval_s),
        )


def first_check(at: float, *, result: PageRef | None, status: int) -> PageHistory:
    """Return the record of a page that was fetched for the first time."""
    now = int(at)
    return PageHistory(
        PageFate.DONE, status, result, checked_at=now, first_seen=now, changed_at=now, checks=1
    )


pack_history = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PageHistory).decode


def unpack_history(packed: bytes) -> PageHistory:
    """Return a stored record; raise `msgspec.DecodeError` if it cannot be read."""
    return _decode(packed)


def read_history(packed: bytes) -> PageHistory | None:
    """Return a stored record; None: it cannot be read, and its page is fetched as if it were new."""
    try:
        return _decode(packed)
    except (msgspec.DecodeError, RecursionError):
        return None


def is_done(packed: bytes) -> bool:
    """Return whether a stored record is that of a page that was fetched.

    The second byte is the first field. It is not decoded, because this runs for every page.
    """
    return packed[1:2] == bytes((PageFate.DONE,))
