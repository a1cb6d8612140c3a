"""`SendTurn`: permission to send one request to a host, taken at the moment of writing."""

from typing import Protocol, runtime_checkable

from shoal.model.page import Timing


class SendTurn(Protocol):
    """One turn of a host, which the gate grants."""

    timing: Timing  # where a client that can tell the phases of its request apart notes how long they took

    async def take(self, address: str = "") -> float:
        """Wait for the turn. Return 0.0 to write the request now, else the seconds until the turn.

        `address`: the one that the connection leads to; it has a separate pace.
        """

    def sent(self) -> None:
        """Record that the request has been written."""

    def answered(self) -> None:
        """Record the first byte of the response."""


@runtime_checkable
class KnownTurn(Protocol):
    """A turn of a gate that can tell when it is due before it is taken."""

    interval: float

    def known_wait(self) -> float:
        """Return the seconds until the turn, as this process knows it."""
