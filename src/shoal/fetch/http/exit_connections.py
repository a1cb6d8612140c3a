"""The connections of this process through each exit, over all of its clients: an exit has a limit for all."""

from typing import Protocol

from shoal.model.exits.exit import ChosenExit


class ConnectingClient(Protocol):
    """What opens connections through exits."""

    def count_through(self, exit: str) -> int:
        """Return the connections through an exit: in use, being opened and idle."""

    def close_idle_through(self, exit: str) -> bool:
        """Close an idle connection through an exit; return False without one."""


class ExitConnections:
    def __init__(self) -> None:
        self._clients: list[ConnectingClient] = []

    def add(self, client: ConnectingClient) -> None:
        self._clients.append(client)

    def remove(self, client: ConnectingClient) -> None:
        self._clients.remove(client)

    def make_room(self, via: ChosenExit) -> None:
        """Close idle connections until those that are counted, the new one among them, keep the limit."""
        limit = via.exit.connections
        while limit and sum(client.count_through(via.name) for client in self._clients) > limit:
            if not any(client.close_idle_through(via.name) for client in self._clients):
                return

    def close_idle(self, exit: str) -> None:
        """Close all idle connections through an exit: another worker may use it now."""
        for client in self._clients:
            while client.close_idle_through(exit):
                pass
