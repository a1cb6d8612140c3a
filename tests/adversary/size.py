"""How large the adversary tests are: a cut in `make test`, full size in `make adversary`."""

import os
from typing import TypeVar

T = TypeVar("T")

FULL_SIZE = bool(os.environ.get("ADVERSARY_SIZE"))


def sized(cut: T, *, full: T) -> T:
    """Return `full` under `make adversary`, else `cut`."""
    return full if FULL_SIZE else cut
