"""A client that sends every request through an exit: for robots.txt, which no request of a crawl asks for."""

from typing import Protocol

from shoal.fetch.exits.exit_pool import Answer, ExitPool
from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.model.adaptive_delay import Signal
from shoal.model.exits.exit import ChosenExit, ExitWishes
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.url import host_key

_SIGNALS = {403: Signal.FORBIDDEN, 429: Signal.RATE_LIMITED}


class ExitClient(Protocol):
    """The part of a client that reads robots.txt through exits."""

    async def fetch(
        self,
        url: str,
        *,
        headers: Headers,
        limits: FetchLimits,
        turn: SendTurn | None,
        first_bytes: int,
        via: ChosenExit,
    ) -> Answer: ...


class RoutedClient:
    def __init__(self, client: ExitClient, exits: ExitPool, wishes: ExitWishes) -> None:
        self._client = client
        self._exits = exits
        self._wishes = wishes

    async def fetch(
        self, url: str, *, headers: Headers, limits: FetchLimits, turn: SendTurn | None, first_bytes: int
    ) -> Answer:
        """Fetch a URL as the client does, through the exit of its host."""
        host = host_key(url)
        wish = self._exits.wish_for(host, self._wishes.of(host))

        async def send(via: ChosenExit) -> Answer:
            return await self._client.fetch(
                url, headers=headers, limits=limits, turn=turn, first_bytes=first_bytes, via=via
            )

        answer, via = await self._exits.send(send, host=host, wish=wish, url=url)
        if via is not None and isinstance(answer, Response):
            self._exits.report(via, host, wish, _SIGNALS.get(answer.status, Signal.NORMAL))
        if isinstance(answer, Failure) and answer.failure_class is FailureClass.PROXY_ERROR:
            # All exits refuse this site: for robots.txt the same as a site that cannot be reached.
            return Failure(FailureClass.CONNECT, answer.reason, answer.status)
        return answer
