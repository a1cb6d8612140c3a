"""Leases as a frontier would grant them."""

from shoal.model.outcome import Lease
from shoal.model.request import Request


def lease(number: int, *, token: int = 1, until: float = 60.0, host: str = "a.test") -> Lease:
    return Lease("c", number, token, host, Request(url=f"http://{host}/{number}"), 1, 0, 0, until, 0.0, 1)
