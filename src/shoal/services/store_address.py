"""Store addresses as commands need them: checked before use, and printed without a password."""

from shoal.stores.address import check_store, shown_store

__all__ = ["check_store", "shown_store"]
