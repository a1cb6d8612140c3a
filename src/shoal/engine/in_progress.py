"""What is in hand between an answer and the commit that makes it count."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from shoal.archive.reader import StoredPage
from shoal.fetch.contract import Attempt
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Gone, Lease, Outcome, Settlement
from shoal.model.page import FinalFailure, PageRecord, ParseTask, Response
from shoal.model.request import Request


class LeasedRequest(ABC):
    """Something in hand whose lease is not settled yet."""

    __slots__ = ()

    @property
    @abstractmethod
    def lease(self) -> Lease: ...

    @property
    def fingerprint(self) -> int:
        return self.lease.fingerprint

    @property
    def request(self) -> Request:
        return self.lease.request


@dataclass(slots=True)
class Arrived(LeasedRequest):
    """A page that only we have: fetched, not archived, its lease not settled."""

    attempt: Attempt
    response: Response
    earlier: StoredPage | None
    since: float

    @property
    def lease(self) -> Lease:
        return self.attempt.lease

    @property
    def status(self) -> int:
        return self.response.status


@dataclass(slots=True)
class Archived:
    """A page that is settled as fetched; its links and items are still to come."""

    fingerprint: int
    request: Request
    page: PageRecord
    attempts: int = 0  # 0: an earlier run made them
    consumer: str = ""  # whom a bus gave it to

    @property
    def status(self) -> int:
        return self.page.status


@dataclass(slots=True)
class Barren(LeasedRequest):
    """A request that brought no page; its settlement is ready."""

    settlement: Settlement

    @property
    def lease(self) -> Lease:
        return self.settlement.lease


@dataclass(slots=True)
class FailedParse:
    """Something in hand that has failed for good; its end waits for the spider's hook."""

    what: Arrived | Archived | Barren
    failure: Failure

    def task(self, id: int) -> ParseTask:
        """Make what a parse child is given to run the hook."""
        what, failure = self.what, self.failure
        attempts = what.lease.attempt if isinstance(what, LeasedRequest) else what.attempts
        end = FinalFailure(failure.failure_class, failure.reason, attempts)
        url = what.request.url
        return ParseTask(id, what.fingerprint, what.request, url, failure.status, (), b"", 0.0, end)


def failure_of(outcome: Outcome) -> Failure | None:
    """Say why an outcome ends its request for good; None: it does not, or not by a failure."""
    match outcome:
        case Dead(failure=failure):
            return failure
        case Gone(status=status):
            return Failure(FailureClass.GONE, f"status {status}", status)
    return None
