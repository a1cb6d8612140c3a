"""The contract between the parts of the fetch station, and for other HTTP clients and fetchers.

`Client` sends one request and returns the response. `HttpClient` implements it over its own sockets; a client
that impersonates a browser, or drives one, implements the same. A client must do the following.

- **Result.** Return a `Response`, or a `Failure` with a failure class for anything a server or network does.
  Raise
  only for bugs and cancellation. Follow no redirect, keep no cookies, retry nothing that may have reached the
  server: the fetcher and the frontier do that.
- **Guard.** Check the URL and *every address that it connects to* with the guard (`fetch.http.guard`) before
  a
  socket is opened, and connect to the checked address, not to the name again. Return a failure of class
  `refused` otherwise. No other part checks addresses after this one.
- **Gate.** If `turn` is given, await `turn.take(address)`, the peer's address, with the connection open and
  the request composed, and write without awaiting anything in between. If it returns more than 0.0, send
  nothing and return `NotSent` with
  that delay. Call `turn.sent()` after writing and `turn.answered()` at the first byte of the response. A
  transparent second send takes the turn again. A wait for a turn does not count towards the time limits.
- **Limits.** Apply every limit of `FetchLimits` while bytes arrive, not afterwards: `too_large` and `bomb`
  for
  sizes, `timeout` for times, `protocol` for invalid HTTP, `truncated` for a body that ends early.
- **Response.** `headers` have lower-case names, in order, repeats kept. `wire` is the body as the server sent
  it,
  after transfer coding and before content decoding: the archive stores it and must be able to decode it again
  by the response's own `content-encoding` header. `body` is the decoded content; it is the same object as
  `wire` if there was no encoding. `address` is the peer's address.
- **Timing.** If `turn` is given, note in `turn.timing` how long each phase took, also of a request that
  failed. What a client cannot tell apart it leaves at 0.
- **Exit.** If `via` is given, connect through that exit and nothing else, and set `exit` of the response to
  its name. Return `proxy_error` for a fault of the exit, `connect` where it says that it cannot reach the
  target. A client without this parameter serves crawls without exits.
- **Cancellation.** A cancelled call closes its connection and leaves nothing behind.

`Fetcher` turns a lease into an `Attempt`; each worker pool has one. `HttpFetcher` implements it with any
`Client`.

`shoal.testing.contracts.client` checks a client against this contract; `tests/contract/test_client.py` runs
it on `HttpClient`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.model.adaptive_delay import Signal
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Released, Retry
from shoal.model.page import NotSent, Response, Timing
from shoal.model.request import Request


class Client(Protocol):
    """Sends one request for a canonical URL. The module's docstring says what it must do."""

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers,
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent: ...


class CountedTurn(SendTurn, Protocol):
    sends: int  # how often it was taken


class Gate(Protocol):
    """Keeps the pace of hosts: within this process (`SendGate`), or for a whole fleet (`SharedGate`)."""

    def turn(self, host: str, *, interval: float, burst: int = 1, early: float = 0.0) -> CountedTurn: ...

    def known_interval(self, host: str) -> float: ...


@dataclass(slots=True)
class Attempt:
    """The result of one attempt at a lease.

    Without an `outcome`, the response must be archived, and parsed if `parse` is true.
    """

    lease: Lease
    response: Response | None = None
    outcome: Gone | Retry | Dead | Filtered | Released | None = None
    following: Request | None = None  # the target of a redirect or of a Refresh header
    refused: FailureClass | None = None  # the rule that the target of a redirect was refused by
    parse: bool = False
    signal: Signal | None = None  # what it says about the host; None: what its outcome says
    sent: bool = False  # a request was sent to this host, even if only for robots.txt
    crawl_delay: float | None = None  # seconds between requests that robots.txt asks for
    new_rules: bool = False  # this attempt has fetched robots.txt
    headers: Headers = ()  # as they were sent
    timing: Timing = field(default_factory=Timing)
    at_next_level: Callable[[Failure], Retry | None] | None = None  # for a block that is found later
    keep: bool = False  # archive the response, although it is not the page: it is tried again


class Fetcher(Protocol):
    """Makes attempts at the leases of one worker pool."""

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        """Make one attempt. `etag` and `modified` are the validators of an archived copy, if there is one."""
