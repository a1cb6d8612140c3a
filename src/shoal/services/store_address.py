"""Store addresses as commands need them: checked before use, and printed without secrets."""

from shoal.stores.open import check_address, public_address

__all__ = ["check_address", "public_address"]
