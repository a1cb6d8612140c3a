"""The workers of a fleet, for people and for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from shoal.cli.views.format import count, plural, table

if TYPE_CHECKING:
    from shoal.services.inspect.status import Heartbeat

ROLES = {"fetch", "parse", "sink"}  # of a worker that is started without --roles
DISTANT_S = 0.02  # a store that takes longer to answer is worth a line
MOST_NAMED = 3  # crawls of a worker; more are counted


def roles_of(worker: "Heartbeat") -> str:
    return "all" if set(worker.roles) == ROLES else ",".join(worker.roles)


def doing_of(worker: "Heartbeat") -> str:
    return f"{worker.doing} {worker.why}".rstrip()


def weak_sandboxes(workers: Sequence["Heartbeat"]) -> dict[str, list[str]]:
    """Return the workers whose spiders run without a complete sandbox, by the state of the sandbox."""
    weak: dict[str, list[str]] = {}
    for worker in workers:
        if worker.sandbox not in ("", "complete"):
            weak.setdefault(worker.sandbox, []).append(worker.worker)
    return weak


def sandbox_lines(workers: Sequence["Heartbeat"]) -> Iterator[str]:
    """Name the workers whose spiders run without a complete sandbox."""
    for state, names in weak_sandboxes(workers).items():
        more = len(names) - MOST_NAMED
        named = ", ".join(names[:MOST_NAMED]) + (f" and {count(more)} more" if more > 0 else "")
        yield f"sandbox of spiders {state}: {named}; run shoal doctor there"


def mixed_versions(workers: Sequence["Heartbeat"]) -> dict[str, int]:
    """Return the crawls of which workers run several spider versions, with the number of versions."""
    versions: dict[str, set[str]] = {}
    for worker in workers:
        for at in worker.crawls:
            versions.setdefault(at.crawl, set()).add(at.version)
    return {crawl: len(several) for crawl, several in versions.items() if len(several) > 1}


def crawls_of(worker: "Heartbeat", mixed: Mapping[str, int]) -> str:
    """Name what a worker serves, with the version of the spider where workers differ."""
    if len(worker.crawls) > MOST_NAMED and not any(at.crawl in mixed for at in worker.crawls):
        return plural(len(worker.crawls), "crawl")
    return " ".join(f"{at.crawl}@{at.version[:6]}" if at.crawl in mixed else at.crawl for at in worker.crawls)


def worker_lines(workers: Sequence["Heartbeat"]) -> Iterator[str]:
    """Lay out who is there and what they do."""
    mixed = mixed_versions(workers)
    several = len({worker.shoal for worker in workers}) > 1
    rows: list[Sequence[str]] = [
        [
            worker.worker,
            roles_of(worker),
            count(sum(at.in_flight for at in worker.crawls)),
            f"{sum(at.rate for at in worker.crawls):,.1f}",
            doing_of(worker),
            *([worker.shoal] if several else []),
            crawls_of(worker, mixed),
        ]
        for worker in workers
    ]
    heading = [
        "worker",
        "roles",
        "in progress",
        "pages/s",
        "doing",
        *(["shoal"] if several else []),
        "crawls",
    ]
    yield from table(heading, rows, words=(0, 1, *range(4, len(heading))))
    for worker in workers:
        delay = max((at.store_delay for at in worker.crawls), default=0.0)
        if (lost := sum(at.lost_turns for at in worker.crawls)) and delay > DISTANT_S:
            yield f"{worker.worker} has lost {plural(lost, 'turn')}: its store takes {delay * 1000:.0f} ms"
