"""How many pages to put into one message to a child. Pure.

A message has a fixed cost on both sides, so under load messages should be full. A page in a child's queue
cannot be parsed by an idle child, so messages should be small. A child has at most two messages: the one it
works on and the next one. Further pages collect for the one after that.
"""

from collections.abc import Iterable
from itertools import islice

MAX_MESSAGES = 2
MAX_PAGES = 16  # sending a 12 KB page takes 7 µs alone, 2 µs in a message of 16 or of 64 (bench/parse.py)
MAX_BYTES = 256 * 1024


def share(waiting: int, takers: int) -> int:
    """Return how many of the waiting pages the first of `takers` children gets."""
    return min(MAX_PAGES, -(-waiting // takers))


def fit_in_message(sizes: Iterable[int], pages: int) -> int:
    """Return how many of the next pages, by size, fit into a message: at least one, at most `pages`."""
    count = total = 0
    for size in islice(sizes, pages):
        total += size
        if count and total > MAX_BYTES:
            break
        count += 1
    return count
