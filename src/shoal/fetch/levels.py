"""Which client makes a request: that of its level."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from shoal.fetch.contract import Client
from shoal.fetch.http.guard import refused
from shoal.fetch.http.message import Headers
from shoal.fetch.impersonate.client import NOT_INSTALLED
from shoal.model.failure import Failure
from shoal.model.levels.ladder import AUTO, EXIT, IMPERSONATE, PINS, PLAIN
from shoal.model.request import Request
from shoal.model.url import host_key


def can_impersonate() -> bool:
    """Return whether the extra `impersonate` is installed."""
    return find_spec("wreq") is not None


@runtime_checkable
class ShowsHeaders(Protocol):
    """A client that does not send the headers of a request as they are."""

    def sent_headers(self, headers: Headers) -> Headers: ...


class ClientChoice(Protocol):
    """Chooses the client for a request."""

    def of(self, request: Request) -> Client | Failure: ...


class ClientLevels:
    """`impersonating`: None if the extra for it is not installed."""

    def __init__(
        self,
        plain: Client,
        impersonating: Client | None = None,
        *,
        level: str = AUTO,
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        self._plain = plain
        self._impersonating = impersonating
        self._level = level
        self._hosts = {host: own for host, own in (hosts or {}).items() if own}

    @property
    def impersonates(self) -> bool:
        return self._impersonating is not None

    def of(self, request: Request) -> str:
        """Return the level that a request has by itself and by the settings; nothing was learned."""
        level = request.level or (self._hosts and self._hosts.get(host_key(request.url))) or self._level
        return PLAIN if level == AUTO else level

    def client(self, level: str) -> Client | Failure:
        """Return the client of a level; a failure if this machine has no such client."""
        if level in (PLAIN, EXIT):
            return self._plain
        if level != IMPERSONATE:
            return refused(f"no client for the level {level[:40]!r}: use one of {', '.join(PINS)}")
        return self._impersonating or refused(NOT_INSTALLED)
