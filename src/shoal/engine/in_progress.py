"""A request in progress: between its answer and the commit that makes it count.

    NewPage ────────────────────▶ parsed ──▶ settled
       │ its parse takes long
       ▼
    ArchivedPage ───────────────▶ parsed ──▶ acknowledged
    NoPage ──▶ on_error hook ──────────────▶ settled

Any of them that fails for good may wait for the spider's on_error hook: then `failure` is set.
"""

import msgspec
from msgspec.structs import replace

from shoal.engine.generations.earlier import EarlierPage, PageResult
from shoal.fetch.contract import Attempt
from shoal.frontier.results import Unparsed
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Gone, Lease, Outcome, Settlement
from shoal.model.page import FinalFailure, PageRecord, ParseTask, Response
from shoal.model.request import Link, Request


class NewPage(msgspec.Struct, frozen=True):
    """A page that exists only here: fetched, not archived, its lease not settled."""

    attempt: Attempt
    response: Response
    earlier: EarlierPage | None
    since: float
    links: tuple[Link, ...] = ()  # the target of a redirect or of a Refresh header


class ArchivedPage(msgspec.Struct, frozen=True):
    """A page that is settled as fetched; its links and items are still to come."""

    page: PageRecord
    consumer: str = ""  # the consumer to which a bus delivered it
    earlier: PageResult | None = None  # what it yielded in the previous generation


class NoPage(msgspec.Struct, frozen=True):
    """A request that brought no page; its settlement is ready."""

    settlement: Settlement


class InProgress(msgspec.Struct, frozen=True):
    fingerprint: int
    request: Request
    lease: Lease | None  # None: it is settled already
    attempts: int  # 0: an earlier run made them
    status: int
    stage: NewPage | ArchivedPage | NoPage
    failure: Failure | None = None  # it has failed for good, and its hook runs

    @classmethod
    def fetched(cls, new: NewPage) -> "InProgress":
        lease = new.attempt.lease
        return cls(lease.fingerprint, lease.request, lease, lease.tries, new.response.status, new)

    @classmethod
    def delivered(cls, unparsed: Unparsed, earlier: PageResult | None = None) -> "InProgress":
        """Return a page that an earlier run, or another worker, has archived."""
        page = unparsed.page
        stage = ArchivedPage(page, unparsed.consumer, earlier)
        return cls(unparsed.fingerprint, unparsed.request, None, 0, page.status, stage)

    @classmethod
    def failed(cls, settlement: Settlement, failure: Failure) -> "InProgress":
        lease = settlement.lease
        stage = NoPage(settlement)
        return cls(
            lease.fingerprint, lease.request, lease, lease.tries, failure.status, stage, failure=failure
        )

    def archived(self, page: PageRecord) -> "InProgress":
        """Return the same after its page was archived and settled as fetched."""
        earlier = self.stage.earlier if isinstance(self.stage, NewPage) else None
        known = earlier.result if earlier is not None else None
        return replace(self, lease=None, stage=ArchivedPage(page, earlier=known))

    def with_failure(self, failure: Failure) -> "InProgress":
        return replace(self, failure=failure)

    def hook_task(self, id: int) -> ParseTask:
        """Return the task with which a parse child runs the on_error hook."""
        assert self.failure is not None
        failure, url = self.failure, self.request.url
        end = FinalFailure(failure.failure_class, failure.reason, self.attempts)
        return ParseTask(id, self.fingerprint, self.request, url, failure.status, (), b"", 0.0, end)


def failure_of(outcome: Outcome) -> Failure | None:
    """Return why an outcome ends its request for good; None: it does not, or not by a failure."""
    match outcome:
        case Dead(failure=failure):
            return failure
        case Gone(status=status):
            return Failure(FailureClass.GONE, f"status {status}", status)
    return None
