"""Errors for pages that cannot be read from the archive."""

from shoal.model.errors import Rejected, Unavailable


class PageUnreadable(Rejected):
    """The page cannot be read from the archive, now or later: fetch it again or skip it."""


class PageMissing(PageUnreadable):
    """Its segment does not exist, although it has not expired."""


class PageExpired(PageUnreadable):
    """Its segment was deleted because it had expired."""


class PageDamaged(PageUnreadable):
    """The bytes at its reference are not the ones that were written."""


class SegmentLost(Unavailable):
    """A segment that is being written was deleted, replaced or cut; writing to it again does not help."""
