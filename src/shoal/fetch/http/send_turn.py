"""`SendTurn`: permission to send one request to a host, taken at the moment of writing."""

from typing import Protocol


class SendTurn(Protocol):
    """One turn of a host, which the gate grants."""

    async def take(self, address: str = "") -> float:
        """Wait for the turn. Return 0.0 to write the request now, else the seconds until the turn.

        `address`: the one that the connection leads to; it has a separate pace.
        """

    def sent(self) -> None:
        """Record that the request has been written."""

    def answered(self) -> None:
        """Record the first byte of the response."""
