"""The generations of a crawl that a store keeps. Pure: no I/O."""

from collections.abc import Sequence

import msgspec


class Generation(msgspec.Struct, frozen=True, array_like=True):
    """One generation: all requests between two `delete` of a crawl."""

    number: int  # from 1 on
    began: float = 0.0  # epoch seconds; 0: not known
    finished: bool = True  # False: something was left, or there was no page
    crawl: int = 0  # the number of the crawl, where each generation has another one


def split_generations(earlier: Sequence[Generation], keep: int) -> tuple[list[Generation], list[Generation]]:
    """Return the generations to keep and those to drop; `earlier` is sorted, oldest first.

    Those that were given up do not count, because they have not seen every page; there are at most as many of
    them as of the others.
    """
    finished = 0
    first = len(earlier)
    while first > 0 and finished < keep and len(earlier) - first < 2 * keep:
        first -= 1
        finished += earlier[first].finished
    return list(earlier[first:]), list(earlier[:first])
