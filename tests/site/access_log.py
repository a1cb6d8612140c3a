"""What a server saw, and the questions a test may ask of it. Pure; the log is the only witness."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple


class Hit(NamedTuple):
    """One request, in epoch seconds."""

    arrived: float
    ended: float  # answered, or the client went away; infinite: still open
    host: str  # with port
    status: int
    path: str

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"


class Window(NamedTuple):
    """A stretch of time that holds more requests than the pace allows."""

    start: float
    end: float
    requests: int
    allowed: float


def violations(times: Iterable[float], *, rate: float, burst: int = 1, slack_s: float = 0.0) -> list[Window]:
    """List the windows, of any length, that hold more than `rate * length + burst` requests.

    At most one per request: the worst window that ends with it. With the i-th request at t(i), the window
    from i to j holds j - i + 1 requests, so it is too full when (j - rate * t(j)) - (i - rate * t(i)) > burst - 1:
    a running minimum of the second term decides every window in one pass. `slack_s` is added to every length.
    """
    found = []
    ordered = sorted(times)
    emptiest, since = float("inf"), 0
    for j, time in enumerate(ordered):
        level = j - rate * (time - ordered[0])
        if level <= emptiest:  # of equal ones the latest: the shortest window says most
            emptiest, since = level, j
        requests, length = j - since + 1, time - ordered[since]
        allowed = rate * (length + slack_s) + burst
        # The allowance is for rounding alone: it is a thousand times finer than the clock.
        if requests > allowed + 1e-9 * len(ordered) + 1e-6:
            found.append(Window(ordered[since], time, requests, allowed))
    return found


def gaps(times: Iterable[float]) -> list[float]:
    """List the pauses between one request and the next."""
    return [later - earlier for earlier, later in pairwise(sorted(times))]


def peak_concurrency(hits: Sequence[Hit]) -> int:
    """Return how many requests were open at once at most; one that ends as another begins is not counted."""
    changes = sorted([(hit.arrived, 1) for hit in hits] + [(hit.ended, -1) for hit in hits])
    open_now = peak = 0
    for _, change in changes:
        open_now += change
        peak = max(peak, open_now)
    return peak


def fetches(hits: Iterable[Hit]) -> Counter[str]:
    """Count the requests for each URL, robots.txt aside."""
    return Counter(hit.url for hit in hits if hit.path != "/robots.txt")


def by_host(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Group requests by host, each group in order of arrival."""
    groups: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=attrgetter("arrived")):
        groups.setdefault(hit.host, []).append(hit)
    return groups
