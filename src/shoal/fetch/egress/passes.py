"""A pass: what one session of a foreign client may do at the egress, and what it has done."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from shoal.fetch.egress.paced_request import PacedRequest
from shoal.fetch.http.guard import Origin
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure
from shoal.model.limits import MIB

MAX_REFUSALS = 100  # that are kept


class OpenConnection(Protocol):
    origin: str  # that it leads to; empty: it is not known yet

    def abort(self) -> None: ...


class ConnectionRules(Protocol):
    """Decides about the connections of a session, apart from the guard."""

    async def may_connect(self, origin: Origin) -> bool: ...


class Passes:
    """The passes of one egress, or of several that serve the same browsers, by token."""

    def __init__(self) -> None:
        self._by_token: dict[str, EgressPass] = {}

    def add(self, issued: "EgressPass") -> None:
        self._by_token[issued.token] = issued

    def remove(self, issued: "EgressPass") -> None:
        self._by_token.pop(issued.token, None)

    def find(self, token: str) -> "EgressPass | None":
        return self._by_token.get(token)


class PassLimits(msgspec.Struct, frozen=True):
    """Of one pass, over all its connections."""

    down_bytes: int = 64 * MIB
    up_bytes: int = 16 * MIB
    connections: int = 32  # at once


@dataclass(slots=True, eq=False)
class EgressPass:
    """After every use look at `refused` and `over` first: what the client itself says is hearsay."""

    token: str = field(repr=False)
    via: ChosenExit | None = None
    limits: PassLimits = field(default_factory=PassLimits)
    down: int = 0  # bytes on the side of the exit, in both directions
    up: int = 0
    hosts: Counter[str] = field(default_factory=Counter)  # connections by host
    lost: dict[str, Failure] = field(default_factory=dict)  # by host: why its first connection was not made
    refused: list[Failure] = field(default_factory=list)  # by the guard or a limit
    over: Failure | None = None  # why a connection failed or a limit ended it: the latest
    address: str = ""  # of the server that was connected to last; empty: an exit outside has resolved it
    open: set[OpenConnection] = field(default_factory=set)
    closed: bool = False
    issuer: object = None  # the egress that it is for
    requests: ConnectionRules | None = None  # None: the guard and the limits alone decide
    paced: PacedRequest | None = None  # the request that is held until its turn; None: nothing is held

    def start_page(self) -> None:
        """Count from zero again: the limits apply to each page of a session."""
        self.down = self.up = 0
        self.hosts.clear()
        self.lost.clear()
        self.refused.clear()
        self.over = None

    def has_connection(self, origin: str) -> bool:
        """Return whether a connection to an origin is open, or being opened."""
        return any(one.origin == origin for one in self.open)

    @property
    def proxy_user(self) -> str:
        """Return the user name that the client shows to the egress; any password will do."""
        return self.token

    def refuse(self, failure: Failure) -> None:
        if len(self.refused) < MAX_REFUSALS:
            self.refused.append(failure)
        self.over = failure

    def count(self, *, up: int = 0, down: int = 0) -> bool:
        """Count bytes; return False if a limit is exceeded."""
        self.up += up
        self.down += down
        return self.up <= self.limits.up_bytes and self.down <= self.limits.down_bytes
