"""Which conditions hold, with cause and action in words: a table."""

import msgspec
import pytest
from tests.unit.services.alerts.observed import (
    FILE,
    NOW,
    beat,
    crawl,
    figures,
    fleet,
    host,
    seen,
    trouble,
)

from shoal.model.alert import Alert, AlertKind
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.exits.health import ExitRecord
from shoal.model.exits.spending import Spending
from shoal.model.settings import AlertSettings
from shoal.services.alerts.conditions import find_conditions, percentile
from shoal.services.alerts.observation import Observation
from shoal.services.alerts.window import Window
from shoal.stores.contract.heartbeat import OutputActivity
from shoal.stores.contract.monitoring import StoreRoom

RULES = AlertSettings()
OLD = NOW - 60.0
TRAP = {"shop.example/cal/*": ClosedPattern(500, "https://shop.example/cal/1")}
DOWN = ExitRecord(seen_at=NOW, rest_until=NOW + 12, cause="unhealthy", why="Connection refused", rests=1)
DOWN_ISP = msgspec.structs.replace(DOWN, kind="isp")
USED = ExitRecord(seen_at=NOW, kind="residential")
LIMITED = trouble("shop.example", 30, 9, refused=9, why="rate_limited", status=429)


def conditions(*observations: Observation) -> list[Alert]:
    return find_conditions(Window(observations), RULES)


def writing(items: int, *, doing: str = "writing", why: str = "") -> tuple[OutputActivity, ...]:
    return (OutputActivity("shop", FILE, doing, why, items),)


CASES: list[tuple[tuple[Observation, ...], AlertKind, str, str, str]] = [
    (
        (seen(crawl(counts={"waiting": 100_001})),),
        AlertKind.QUEUE_DEPTH,
        "fetch",
        "100,001 requests wait",
        "more workers will not help",
    ),
    (
        (seen(crawl(counts={"waiting": 100_001}), figures=(figures(slots=10, busy=9),)),),
        AlertKind.QUEUE_DEPTH,
        "fetch",
        "100,001 requests wait",
        "start more of them",
    ),
    (
        (
            seen(at=OLD, figures=(figures(at=OLD, tasks={"success": 10}),)),
            seen(figures=(figures(tasks={"success": 94, "error": 10, "rate_limited": 6}),)),
        ),
        AlertKind.SUCCESS_RATE,
        "fetch",
        "84% of 100 attempts succeed: 10 failed, 6 were asked to wait",
        "shoal sql",
    ),
    (
        (seen(figures=(figures(trouble=(trouble("shop.example", 100, 51),)),)),),
        AlertKind.HOST_FAILING,
        "fetch",
        "shop.example answers with server errors (5xx): 49% of its 100 requests succeed; its pace is now 2/s",
        "more workers will not help",
    ),
    (
        (
            seen(
                figures=(figures(trouble=(LIMITED,)),),
                hosts={"shop.example": host("shop.example", slow=4.0)},
            ),
        ),
        AlertKind.HOST_THROTTLED,
        "fetch",
        "shop.example answers 429; its pace is now 0.5/s",
        "more workers will not help",
    ),
    (
        (
            seen(
                figures=(figures(trouble=(LIMITED,)),),
                hosts={"shop.example": host("shop.example", rest_until=NOW + 30)},
            ),
        ),
        AlertKind.HOST_THROTTLED,
        "fetch",
        "shop.example answers 429; it rests for 30 s",
        "more workers will not help",
    ),
    (
        (
            seen(at=OLD, figures=(figures(at=OLD),)),
            seen(figures=(figures(tasks={"success": 100}, slow=20),)),
        ),
        AlertKind.LATENCY,
        "fetch",
        "5 % of 100 requests take longer than 8.8 s",
        "check the network",
    ),
    (
        (
            seen(crawl(counts={"done": 100, "dead": 0}), at=OLD),
            seen(crawl(counts={"done": 190, "dead": 10}, dead_by_class={"timeout": 10})),
        ),
        AlertKind.DEAD_LETTERS,
        "fetch",
        "10% of the requests of shop that ended lately are dead letters, mostly timeout",
        "shoal dlq list --crawl shop",
    ),
    (
        (seen(crawl(counts={"waiting": 1, "done": 90, "dead": 10})),),
        AlertKind.ERROR_BUDGET,
        "fetch",
        "shop has spent its error budget: 10 of 100 requests are dead letters, 5% were allowed",
        "shoal dlq replay",
    ),
    (
        (seen(crawl(spending=Spending(kinds={"isp": 900_000_000}, share=0.9))),),
        AlertKind.BANDWIDTH,
        "fetch",
        "shop has used 90% of its budget for exits (900.0 MB)",
        "crawl.budget_gb",
    ),
    (
        (seen(crawl(), fleet=fleet(fetch=3)),),
        AlertKind.NO_WORKER,
        "fetch",
        "no worker is running, and 3 requests or pages wait",
        "start shoal worker",
    ),
    (
        (seen(crawl(), fleet=fleet(beat(roles=("fetch", "sink")), parse=7)),),
        AlertKind.NO_WORKER,
        "parse",
        "no worker has the role parse, and 7 fetched pages of shop wait for one",
        "start shoal worker --roles parse",
    ),
    (
        (seen(crawl(unserved_pools={"browser": 5}), fleet=fleet(beat(), fetch=5)),),
        AlertKind.NO_WORKER,
        "fetch",
        "no worker serves the pool browser: 5 requests of shop wait in it",
        "start shoal worker --pools browser",
    ),
    (
        (seen(crawl(), exits={"a": DOWN, "b": DOWN}),),
        AlertKind.EXITS_DOWN,
        "fetch",
        "all 2 exits are down, the last one because Connection refused; no request leaves, the next probe is in 12 s",
        "shoal proxy list",
    ),
    (
        (seen(crawl(), exits={"a": DOWN_ISP, "long gone": ExitRecord(kind="isp"), "c": USED}),),
        AlertKind.EXITS_DOWN,
        "fetch",
        "the only exit of kind isp is down, the last one because Connection refused; requests that ask for this kind"
        " wait, the next probe is in 12 s",
        "shoal proxy list",
    ),
    (
        (
            seen(crawl(counts={"parsing": 4, "done": 9}), at=OLD, fleet=fleet(beat(), parse=4)),
            seen(crawl(counts={"parsing": 6, "done": 9}), fleet=fleet(beat(), parse=6)),
        ),
        AlertKind.STAGE_STALLED,
        "parse",
        "6 pages of shop wait to be parsed, and none was finished for 1m 00s",
        "does the spider hang?",
    ),
    (
        (seen(crawl(), fleet=fleet(beat(outputs=writing(0, doing="failing", why="disk full")), sink=9)),),
        AlertKind.STAGE_STALLED,
        "sink",
        f"9 pages of shop wait to be written to {FILE}: w1 says: disk full",
        "repair the output",
    ),
    (
        (
            seen(
                crawl(), at=OLD, fleet=fleet(beat(), sink=4), figures=(figures(at=OLD, written={"shop": 5}),)
            ),
            seen(crawl(), fleet=fleet(beat(), sink=9), figures=(figures(written={"shop": 5}),)),
        ),
        AlertKind.STAGE_STALLED,
        "sink",
        f"9 pages of shop wait to be written, and {FILE} takes no item",
        "repair the output",
    ),
    (
        (seen(crawl(), figures=(figures(committing_s=25.0, parsing=3),)),),
        AlertKind.STAGE_STALLED,
        "sink",
        "the outputs take no items: writing has not progressed for 25 s",
        "blocked",
    ),
    (
        (seen(crawl(), fleet=fleet(beat()), figures=(figures(committing_s=25.0),)),),
        AlertKind.STAGE_STALLED,
        "store",
        "w1 has waited 25 s for the store to take the results of pages",
        "check the server",
    ),
    (
        (
            seen(at=OLD, figures=(figures(at=OLD, parsing=3, tasks={"success": 4}),)),
            seen(figures=(figures(parsing=3, tasks={"success": 4}),)),
        ),
        AlertKind.STAGE_STALLED,
        "parse",
        "3 pages at w1 wait to be parsed, and none was finished for 1m 00s",
        "parse.wall",
    ),
    (
        (
            seen(at=OLD, figures=(figures(at=OLD, busy=3, tasks={"success": 4}),)),
            seen(figures=(figures(busy=3, tasks={"success": 4}, oldest_lease_s=44.0),)),
        ),
        AlertKind.STAGE_STALLED,
        "fetch",
        "3 requests of w1 are on the way, and none has ended for 1m 00s",
        "check the network",
    ),
    (
        (seen(crawl(), fleet=fleet(beat(), parse=9_001)),),
        AlertKind.STAGE_BEHIND,
        "parse",
        "9,001 pages of shop wait to be parsed; fetching pauses above 10,000",
        "shoal worker --roles parse",
    ),
    (
        (seen(crawl(), fleet=fleet(beat(), sink=40_001)),),
        AlertKind.STAGE_BEHIND,
        "sink",
        "40,001 pages of shop have items that wait to be written; fetching pauses above 50,000",
        "its outputs are the limit",
    ),
    (
        (seen(crawl(), room=StoreRoom(950_000, 1_000_000, "the server", is_memory=True)),),
        AlertKind.STORE_FULL,
        "store",
        "the server uses 950.0 kB of 1.0 MB of memory; full, it takes no links",
        "maxmemory",
    ),
    (
        (seen(crawl(), room=StoreRoom(999_999_500, 1_000_000_000, "/data", is_memory=False)),),
        AlertKind.STORE_FULL,
        "store",
        "the disk of /data has 500 B left",
        "make room",
    ),
    (
        (seen(crawl(), at=OLD), seen(crawl(closed=TRAP))),
        AlertKind.TRAP_CLOSED,
        "frontier",
        "shop holds back the links of shop.example/cal/*: its pages bring nothing new, such as"
        " https://shop.example/cal/1",
        "shoal release shop queues them",
    ),
    (
        (seen(at=OLD, figures=(figures(at=OLD),)), seen(figures=(figures(internal=2),))),
        AlertKind.INTERNAL_ERROR,
        "fetch",
        "2 attempts failed because of a bug in Shoal",
        "report it",
    ),
]


@pytest.mark.parametrize(
    ("observations", "kind", "stage", "cause", "action"),
    CASES,
    ids=[f"{case[1].value}-{case[2]}-{number}" for number, case in enumerate(CASES)],
)
def test_a_condition_names_its_stage_its_cause_and_what_to_do(
    observations: tuple[Observation, ...], kind: AlertKind, stage: str, cause: str, action: str
) -> None:
    [alert] = conditions(*observations)
    assert (alert.kind, alert.stage, alert.cause) == (kind, stage, cause)
    assert action in alert.action


QUIET: dict[str, tuple[Observation, ...]] = {
    "an exit that is down beside another of its kind": (
        seen(crawl(), exits={"a": DOWN_ISP, "b": msgspec.structs.replace(USED, kind="isp")}),
    ),
    "an exit that is down and has no kind": (
        seen(crawl(), exits={"a": msgspec.structs.replace(DOWN, kind="other"), "b": USED}),
    ),
    "nothing at all": (seen(),),
    "limits that are reached and not exceeded": (
        seen(crawl(counts={"done": 0}), at=OLD, figures=(figures(at=OLD),)),
        seen(
            crawl(counts={"waiting": 100_000, "done": 95, "dead": 5}, spending=Spending(share=0.8)),
            figures=(figures(tasks={"success": 85, "error": 15}, slow=4),),
            room=StoreRoom(90, 100, "s", is_memory=True),
        ),
    ),
    "too few attempts to know": (
        seen(crawl(), at=OLD, figures=(figures(at=OLD),)),
        seen(
            crawl(counts={"dead": 49}),
            figures=(figures(tasks={"error": 49}, trouble=(trouble("a.example", 49, 49),)),),
        ),
    ),
    "a host that answered 429 once and is fetched at its pace": (
        seen(figures=(figures(trouble=(LIMITED,)),), hosts={"shop.example": host("shop.example")}),
    ),
    "stages that are as far behind as they may be": (
        seen(crawl(), fleet=fleet(beat(), parse=9_000, sink=40_000)),
    ),
    "one exit of two rests": (seen(exits={"a": DOWN, "b": ExitRecord(seen_at=NOW)}),),
    "exits that no process uses any more": (
        seen(exits={"a": ExitRecord(seen_at=NOW - 500, rest_until=NOW + 500)}),
    ),
    "figures of a worker that is gone": (
        seen(figures=(figures(at=NOW - 31, trouble=(trouble("a.example", 100, 100),)),)),
    ),
    "a paused crawl": (seen(crawl(counts={"waiting": 200_000}, paused=True), fleet=fleet(fetch=200_000)),),
    "a trap that was closed before": (
        seen(crawl(closed=TRAP), at=OLD),
        seen(crawl(closed=TRAP)),
    ),
    "pages that are parsed and written": (
        seen(
            crawl(counts={"parsing": 4, "done": 9}),
            at=OLD,
            fleet=fleet(beat(), parse=4, sink=9),
            figures=(figures(at=OLD, written={"shop": 5}),),
        ),
        seen(
            crawl(counts={"parsing": 9, "done": 10}),
            fleet=fleet(beat(), parse=9, sink=9),
            figures=(figures(written={"shop": 6}),),
        ),
    ),
    "a server without a limit": (seen(crawl(), room=StoreRoom(10**9, 0, "s", is_memory=True)),),
    "requests that wait for the pace of their hosts": (
        seen(crawl(counts={"waiting": 9}), at=OLD, figures=(figures(at=OLD),)),
        seen(crawl(counts={"waiting": 9}), figures=(figures(),)),
    ),
}


@pytest.mark.parametrize("observations", QUIET.values(), ids=QUIET)
def test_what_is_as_it_should_be_raises_nothing(observations: tuple[Observation, ...]) -> None:
    assert conditions(*observations) == []


def test_a_crawl_that_is_deleted_takes_no_counts_from_the_others() -> None:
    before = seen(at=OLD, figures=(figures("w1", at=OLD, tasks={"success": 900}),))
    now = seen(figures=(figures("w1", tasks={"success": 10}), figures("w2", tasks={"error": 60})))
    [alert] = conditions(before, now)
    assert alert.cause.startswith("0% of 60 attempts succeed")


def test_percentiles_are_interpolated_within_their_bucket() -> None:
    buckets = [0] * 14
    buckets[9] = 100  # 2.5 s to 5 s
    assert percentile(buckets, 0.5) == pytest.approx(3.75)
    assert percentile([0] * 13 + [5], 0.95) == 60.0
    assert percentile([0] * 14, 0.95) == 0.0
