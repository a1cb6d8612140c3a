"""How many pages go into one message to a child. Pure.

A message costs both sides a fixed amount, so under load they should be full; a page that waits in a child's
queue cannot be done by an idle one, so they should be small. A child has two messages at most: the one it
works on and one to go on with. Meanwhile pages gather for the next.
"""

from collections.abc import Iterable
from itertools import islice

MESSAGES = 2
PAGES = 16  # sending a 12 KB page takes 7 µs alone, 2 µs in a message of 16 or of 64 (bench/parse.py)
BYTES = 256 * 1024


def share(waiting: int, takers: int) -> int:
    """Say how many of the waiting pages the first of `takers` children gets."""
    return min(PAGES, -(-waiting // takers))


def cut(sizes: Iterable[int], pages: int) -> int:
    """Say how many of the next pages, by their sizes, fit one message: at least one, at most `pages`."""
    count = total = 0
    for size in islice(sizes, pages):
        total += size
        if count and total > BYTES:
            break
        count += 1
    return count
