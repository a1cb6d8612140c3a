"""Why a page cannot be read back."""

from shoal.model.errors import Rejected


class PageUnreadable(Rejected):
    """The page cannot be had from the archive, now or later: fetch it again or go without."""


class PageMissing(PageUnreadable):
    """Its segment is not there, although nobody expired it."""


class PageExpired(PageUnreadable):
    """Its segment was deleted because it had been kept long enough."""


class PageDamaged(PageUnreadable):
    """The bytes at its place are not the ones that were written."""
