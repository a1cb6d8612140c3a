"""Reading the model."""

from collections import Counter
from collections.abc import AsyncIterator, Collection

from tests.model.parts import view_of
from tests.model.state import Crawl, Entry, Generations, State

from shoal.frontier.generations import Generation
from shoal.frontier.results import (
    STATES,
    Audit,
    Counts,
    CrawlStats,
    DeadLetter,
    HostQueue,
    HostView,
    LetterPosition,
    ListedRequest,
    RequestHistory,
)
from shoal.frontier.rules import applied_pace
from shoal.model.crawl_totals import BEGAN
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord
from shoal.model.request import unpack


class ModelReader:
    def __init__(self, state: State) -> None:
        self._state = state

    async def crawls(self) -> list[str]:
        return list(self._state.crawls)

    async def paused(self, crawl: str) -> bool:
        return self._state.known(crawl).paused

    async def generations(self, crawl: str) -> list[Generation]:
        """Return the generations that the store has, oldest first; the last one is the current one."""
        known, values = self._state.generations.get(crawl, Generations()), self._state.known(crawl).values
        counts = self._state.known(crawl).counts
        finished = counts.open == 0 and counts.done > 0
        return [*known.earlier, Generation(known.current, float(values.get(BEGAN, b"0")), finished)]

    async def histories(self, crawl: str, generation: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield fingerprint and record of every request that ended in a generation."""
        known = self._state.generations.get(crawl, Generations())
        histories = {one.number: several for one, several in known.earlier.items()}
        histories[known.current] = self._state.known(crawl).histories()
        for found in histories.get(generation, {}).items():
            yield found

    async def value(self, crawl: str, key: str) -> bytes | None:
        return self._state.known(crawl).values.get(key)

    async def checkpoint(self, name: str) -> bytes | None:
        """Return what the last commit stored under `name`."""
        return self._state.checkpoints.get(name)

    async def counts(self, crawl: str) -> Counts:
        """Return the number of requests by state."""
        self._state.promote(self._state.clock.now())
        return self._state.known(crawl).counts.copy()

    async def waiting_by_pool(self, crawl: str) -> dict[str, int]:
        """Return the number of requests that wait for their turn or for a retry, by pool; no zeros."""
        requests = self._state.known(crawl).requests.values()
        return dict(Counter(entry.link.pool for entry in requests if entry.state in ("waiting", "delayed")))

    async def dead_letters(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        limit: int | None = None,
        before: LetterPosition | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Yield the dead letters of a crawl, latest first."""
        letters = self._state.dead(self._state.known(crawl), classes, host, ())
        if before is not None:
            letters = [entry for entry in letters if (entry.died_at, entry.ordinal) < before[:2]]
        letters.sort(key=lambda entry: (entry.died_at, entry.ordinal), reverse=True)
        for entry in letters[:limit]:
            assert entry.failure is not None
            assert entry.first_at is not None
            yield DeadLetter(
                crawl=crawl,
                fingerprint=entry.link.fingerprint,
                host=entry.link.host,
                request=unpack(entry.link.packed),
                kind=entry.failure.failure_class,
                reason=entry.failure.reason,
                status=entry.failure.status,
                attempts=entry.attempts + entry.rests,
                crashes=entry.crashes,
                first_at=entry.first_at,
                died_at=entry.died_at,
                holder=entry.holder,
                page=entry.page,
                detail=entry.failure.detail,
                ordinal=entry.ordinal,
            )

    async def requests(self, crawl: str, states: Collection[str]) -> AsyncIterator[ListedRequest]:
        """Yield the requests in these states, other than `done`."""
        self._state.promote(self._state.clock.now())
        for entry in list(self._state.known(crawl).requests.values()):
            if entry.state in states and entry.state != "done" and not entry.purged:
                request = unpack(entry.link.packed)
                yield ListedRequest(
                    fingerprint=entry.link.fingerprint,
                    state=entry.state,
                    url=request.url,
                    method=request.method,
                    host=entry.link.host,
                    attempts=entry.attempts + entry.rests,
                )

    async def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Yield fingerprint and record of every page that the crawl has in the archive."""
        for fp, entry in self._state.known(crawl).requests.items():
            if entry.page is not None:
                yield fp, entry.page

    async def audit(self, crawl: str) -> Audit:
        """Recount every set and compare."""
        within = self._state.known(crawl)
        found = dict.fromkeys(STATES, 0)
        for entry in within.requests.values():
            found[entry.state] += 1
        counted = within.counts.by_state()
        problems = [
            f"the counter of {state} says {counted[state]}, the data {found[state]}"
            for state in STATES
            if counted[state] != found[state]
        ]
        queued = [entry for lane in within.lanes.values() for entry in lane.waiting]
        if sorted(map(id, queued)) != sorted(
            id(entry) for entry in within.requests.values() if entry.state == "waiting"
        ):
            problems.append("the waiting requests are not those in the lanes")
        if within.counts.accepted != len(within.requests):
            problems.append(f"{within.counts.accepted} accepted, {len(within.requests)} seen")
        return Audit(found, problems)

    async def history(self, crawl: str, fingerprint: int, *, host: str = "") -> RequestHistory | None:
        """Return the history of one request, or None if the crawl never accepted it."""
        self._state.promote(self._state.clock.now())
        entry = self._state.known(crawl).requests.get(fingerprint)
        return None if entry is None else _history(crawl, entry)

    async def host(self, name: str) -> HostView | None:
        """Return one host, or None if there is no record of it."""
        known = self._state.hosts.get(name)
        return None if known is None else view_of(known)

    async def stats(self, crawl: str) -> CrawlStats:
        """Return averages over the pages of a crawl, and its queue by host."""
        within = self._state.known(crawl)
        done = [entry for entry in within.requests.values() if entry.state == "done"]
        pages = [entry.page for entry in done if entry.page is not None]
        return CrawlStats(
            len(pages),
            sum(page.elapsed for page in pages) / max(len(pages), 1),
            sum(page.wire_bytes for page in pages) / max(len(pages), 1),
            max((entry.ended_at for entry in done), default=0.0)
            - min((entry.ended_at for entry in done), default=0.0),
            self._queues(within),
        )

    async def queues(self, max_hosts: int | None = None) -> list[HostQueue]:
        return [queue for crawl in self._state.crawls.values() for queue in self._queues(crawl)]

    def _queues(self, crawl: Crawl) -> list[HostQueue]:
        queues = []
        for host in {lane.host.name: lane.host for lane in crawl.lanes.values()}.values():
            pace = applied_pace(host.record, [crawl.paces.get(host.name, crawl.pace)], crawl.slowdown)
            queued = [
                entry
                for entry in crawl.requests.values()
                if entry.link.host == host.name and entry.state in ("waiting", "delayed", "leased")
            ]
            record = host.record
            queues.append(
                HostQueue(
                    host.name,
                    len(queued),
                    pace.interval,
                    pace.concurrency,
                    record.paused,
                    record.rest_until,
                    record.crawl_delay,
                    record.slow,
                )
            )
        return queues


def _history(crawl: str, entry: Entry) -> RequestHistory:
    request, state = unpack(entry.link.packed), entry.state
    ended = state in ("done", "gone", "filtered")
    return RequestHistory(
        crawl,
        entry.link.fingerprint,
        state,
        list(entry.tried),
        request=None if ended else request,
        page=entry.page,
        found_on=None if state == "done" else request.found_on,
        ended_at=entry.died_at if state == "dead" else entry.ended_at if ended else None,
        status=entry.status,
        elapsed=entry.elapsed if ended else 0.0,
        rule=entry.failure.failure_class.value if entry.failure is not None else "",
        reason=entry.failure.reason if entry.failure is not None else "",
        due=entry.due if state == "delayed" else None,
        holder=entry.holder if state in ("leased", "parsing", "dead") else "",
        leased_at=entry.granted_at if state == "leased" else None,
    )
