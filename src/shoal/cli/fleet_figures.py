"""What a fleet is doing, for people and for programs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.cli.figures import count, table

if TYPE_CHECKING:
    from shoal.runtime.looking.fleet_status import Heartbeat
    from shoal.runtime.looking.status import Fleet

TO_DO = {"fetch": "to fetch", "parse": "to parse", "sink": "to write"}  # what lies before each stage


def vacancies(fleet: "Fleet", crawl: str) -> list[str]:
    """Name the roles that a crawl waits for and no worker has; none where there are no workers at all."""
    roles = {role for worker in fleet.workers for role in worker.roles}
    waited_for = [role for role, stage in fleet.stages[crawl].items() if stage.waiting]
    return [role for role in waited_for if role not in roles] if roles else []


def roles_of(worker: "Heartbeat") -> str:
    return "all" if len(worker.roles) == len(TO_DO) else ",".join(worker.roles)


def stages_json(fleet: "Fleet", crawl: str) -> dict[str, object]:
    """Give what lies before each stage of a crawl."""
    stages = fleet.stages[crawl]
    return {name: {"waiting": stage.waiting, "in_hand": stage.in_hand} for name, stage in stages.items()}


def workers_json(fleet: "Fleet") -> list[dict[str, object]]:
    return [
        {
            "worker": worker.worker,
            "host": worker.host,
            "pid": worker.pid,
            "roles": list(worker.roles),
            "shoal": worker.shoal,
            "doing": worker.doing,
            "started_at": worker.started_at,
            "beaten_at": worker.beaten_at,
            "crawls": [
                {
                    "crawl": at.crawl,
                    "version": at.version,
                    "in_flight": at.in_flight,
                    "pages": at.pages,
                    "pages_per_s": round(at.rate, 2),
                }
                for at in worker.crawls
            ],
        }
        for worker in fleet.workers
    ]


def fleet_lines(fleet: "Fleet") -> Iterator[str]:
    """Lay out the stages that have something to do, and the workers."""
    for crawl, stages in fleet.stages.items():
        busy = [f"{count(stage.waiting)} {TO_DO[name]}" for name, stage in stages.items() if stage.waiting]
        if busy:
            yield f"still to do in {crawl}: {', '.join(busy)}"
        for role in vacancies(fleet, crawl):
            yield f"{crawl} waits for a worker with the role {role}: shoal worker --roles {role}"
    if not fleet.workers:
        return
    rows: list[Sequence[str]] = [
        [
            worker.worker,
            roles_of(worker),
            worker.doing,
            count(sum(at.in_flight for at in worker.crawls)),
            f"{sum(at.rate for at in worker.crawls):,.1f}",
            " ".join(f"{at.crawl}@{at.version}" for at in worker.crawls),
        ]
        for worker in fleet.workers
    ]
    yield from table(["worker", "roles", "doing", "in flight", "pages/s", "crawls"], rows, words=(0, 1, 2, 5))
