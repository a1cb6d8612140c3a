"""What a seed means: a plan, which is data. It can be printed, edited, shrunk and kept as a regression test."""

import random

import msgspec
from tests.site.graph import Busy, Shape

FOLDER, FLEET = "folder", "fleet"
ROLES = ("fetch", "parse", "sink")
# Steps after which a fault may strike. In a folder they are calls of the frontier, in a fleet scripts.
FOLDER_EVENTS = ("commit", "add", "lease", "extend", "checkpoint")
FLEET_EVENTS = ("settle", "add", "acknowledge", "extend", "lease", "written")


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault. It is armed when the one before it has struck.

    `on`: the event after whose `count`-th occurrence it strikes, or `time`: after that many seconds.
    """

    kind: str  # kill, crash, freeze, stop, wall, outage, store_clock, start
    on: str = "time"
    count: float = 0
    seconds: float = 0.0  # of a freeze or an outage, or by which a clock is stepped
    part: float = 0.0  # of its data that the fatal call of a crash writes


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything besides the schedule that distinguishes one seed from another."""

    scenario: str
    seed: int
    pages: int
    hosts: int
    links: int = 0  # per page, besides those of the tree; cross links hide a loss
    redirects: int = 0
    gone: int = 0
    disallowed: int = 0
    busy_after: int = 5
    busy_times: int = 0
    retry_after_s: int = 5
    crawl_delay_s: float = 0.0  # of the last host
    trouble: float = 0.0  # share of requests that fail
    rate: float = 5.0
    per_host: int = 1
    concurrency: int = 4
    lease_s: float = 10.0
    slow_disk: float = 0.0
    fetch_log: bool = False
    workers: tuple[tuple[str, ...], ...] = ()  # the roles of each
    one_machine: bool = True
    lose_request: float = 0.0
    lose_answer: float = 0.0
    late: float = 0.0  # share of calls whose effect comes up to 12 s late
    faults: tuple[Fault, ...] = ()

    @property
    def shape(self) -> Shape:
        return Shape(
            seed=self.seed,
            pages=self.pages,
            hosts=self.hosts,
            links=self.links,
            redirects=self.redirects,
            gone=self.gone,
            disallowed=self.disallowed,
            queries=True,
            spellings=True,
            busy={0: Busy(after=self.busy_after, retry_after_s=self.retry_after_s, times=self.busy_times)},
            crawl_delay_s={self.hosts - 1: self.crawl_delay_s} if self.crawl_delay_s else {},
        )

    @property
    def is_quiet(self) -> bool:
        """Whether no fault strikes and no call is lost: then no work is repeated."""
        lossless = not (self.lose_request or self.lose_answer or self.late)
        return lossless and not self.faults and not self.slow_disk


def plan_of(scenario: str, seed: int) -> Plan:
    """Draw the plan of a seed."""
    draw = random.Random(f"{scenario} plan {seed}")
    hosts = draw.randint(1, 5)
    plan = Plan(
        scenario=scenario,
        seed=seed,
        pages=draw.randint(8, 50),
        hosts=hosts,
        links=draw.choice([0, 0, 1, 4]),
        redirects=draw.randint(0, 6),
        gone=draw.randint(0, 4),
        disallowed=draw.randint(0, 4),
        busy_after=draw.randint(3, 20),
        busy_times=draw.randint(0, 2),
        retry_after_s=draw.randint(1, 30),
        crawl_delay_s=1.0 if draw.random() < 0.3 else 0.0,
        trouble=draw.choice([0.0, 0.05, 0.15]),
        rate=draw.choice([0.5, 2.0, 5.0, 20.0]),
        per_host=draw.choice([1, 2, 4]),
        concurrency=draw.choice([1, 4, 16]),
        lease_s=draw.choice([4.0, 10.0, 60.0]),
        slow_disk=draw.choice([0.0, 0.0, 0.0, 0.01, 0.05]),
        fetch_log=draw.random() < 0.3,
    )
    if draw.random() < 0.2:
        return msgspec.structs.replace(
            plan, slow_disk=0.0, workers=_workers(draw) if scenario == FLEET else ()
        )
    if scenario == FOLDER:
        faults = tuple(_folder_fault(draw) for _ in range(draw.randint(1, 4)))
        return msgspec.structs.replace(plan, faults=faults)
    return msgspec.structs.replace(
        plan,
        workers=_workers(draw),
        one_machine=draw.random() < 0.5,
        lose_request=draw.choice([0.0, 0.005, 0.03]),
        lose_answer=draw.choice([0.0, 0.005, 0.03]),
        late=draw.choice([0.0, 0.0, 0.003]),
        faults=tuple(_fleet_fault(draw) for _ in range(draw.randint(1, 7))),
    )


def _workers(draw: random.Random) -> tuple[tuple[str, ...], ...]:
    """Return the roles of one to four workers, the first of which has all."""
    some = [ROLES, ROLES, ROLES, ("fetch",), ("parse",), ("sink",), ("fetch", "parse")]
    return (ROLES, *(draw.choice(some) for _ in range(draw.randint(0, 3))))


def _folder_fault(draw: random.Random) -> Fault:
    kind = draw.choice(["kill", "kill", "kill", "crash", "crash", "freeze", "stop", "wall"])
    steps = [-3.0, -0.5, 5.0, 300.0]
    return _fault(draw, kind, FOLDER_EVENTS, steps, mean_s=15.0)


def _fleet_fault(draw: random.Random) -> Fault:
    kinds = [
        "kill",
        "kill",
        "kill",
        "crash",
        "crash",
        "freeze",
        "stop",
        "wall",
        "outage",
        "store_clock",
        "start",
    ]
    kind = draw.choice(kinds)
    steps = [0.3, 2.0, 30.0] if kind == "store_clock" else [-100.0, -2.0, 2.0, 100.0]
    return _fault(draw, kind, FLEET_EVENTS, steps, mean_s=10.0)


def _fault(
    draw: random.Random, kind: str, events: tuple[str, ...], steps: list[float], *, mean_s: float
) -> Fault:
    by_event = kind == "crash" or draw.random() < 0.7
    on = "write" if kind == "crash" else draw.choice(events) if by_event else "time"
    count = 1 + int(draw.expovariate(1 / 12)) if by_event else round(draw.expovariate(1 / mean_s), 3)
    match kind:
        case "freeze":
            seconds = round(draw.expovariate(1 / 12), 3)
        case "outage":
            seconds = round(draw.expovariate(1 / 5), 3)
        case "wall" | "store_clock":
            seconds = draw.choice(steps)
        case _:
            seconds = 0.0
    return Fault(kind, on, count, seconds, round(draw.random(), 2) if kind == "crash" else 0.0)


def smaller(plan: Plan) -> list[Plan]:
    """Return plans that are simpler in one way each, the largest step first."""
    found = []
    for size in (len(plan.faults) // 2, 1):
        for begin in range(0, len(plan.faults), size or 1):
            kept = plan.faults[:begin] + plan.faults[begin + (size or 1) :]
            found.append(msgspec.structs.replace(plan, faults=kept))
    if len(plan.workers) > 1:
        found.append(msgspec.structs.replace(plan, workers=plan.workers[:-1]))
    less: dict[str, object] = dict.fromkeys(_LEAVE_OUT, 0)
    less |= {"pages": max(2, plan.pages // 2), "hosts": max(1, plan.hosts // 2), "fetch_log": False}
    found += [msgspec.structs.replace(plan, **{name: value}) for name, value in less.items()]
    if plan.pages > 2:
        found.append(msgspec.structs.replace(plan, pages=plan.pages - 1))
    distinct = {msgspec.json.encode(one): one for one in found if one != plan}
    return list(distinct.values())


_LEAVE_OUT = (
    "links",
    "redirects",
    "gone",
    "disallowed",
    "busy_times",
    "crawl_delay_s",
    "trouble",
    "slow_disk",
    "lose_request",
    "lose_answer",
    "late",
)
