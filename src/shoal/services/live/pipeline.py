"""The pipeline of a store as one picture: frontier, fetch, archive, parse, sink. Pure.

A stage is stalled if nothing passes although something waits. The picture names one stage as the cause: the
last one that is full, because that holds up all stages before it; else the one with most waiting.

The alerts of the store come first: what they name is not named again in other words. A stage that passes
nothing is a cause by itself only if neither an alert nor a bottleneck explains it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from shoal.model.alert import Alert, AlertKind
from shoal.model.api.live import STAGES, PipelinePicture, StageCause, StageFigures
from shoal.model.format import count, duration, plural, size
from shoal.services.inspect.bottlenecks import Bottleneck, beyond_alerts, find_bottlenecks, of_hosts
from shoal.services.inspect.status import CrawlStatus, StoreStatus

QUIET_S = 20.0  # a stage with work that passes nothing for this long is stalled
_STALLS = frozenset({"workers", "role", "output", "exits", "stage"})
_STALL_ALERTS = frozenset({AlertKind.STAGE_STALLED, AlertKind.NO_WORKER, AlertKind.EXITS_DOWN})
_HELD_ALERTS = frozenset({AlertKind.STORE_FULL, AlertKind.STAGE_BEHIND})
_HOST_ALERTS = frozenset({AlertKind.HOST_FAILING, AlertKind.HOST_THROTTLED})
_CRAWL_REFUSED = "cannot serve"


@dataclass(frozen=True, slots=True)
class Speeds:
    """What passed each stage per second, and for how long each one has passed nothing."""

    new_links: float | None = None  # into the frontier
    attempts: float | None = None
    pages: float | None = None  # archived
    bytes: float | None = None
    parsed: float | None = None
    items: float | None = None
    median_ms: float | None = None
    quiet_s: Mapping[str, float] = field(default_factory=dict)  # by stage


def draw_picture(status: StoreStatus, speeds: Speeds, now: float) -> PipelinePicture:
    """Return the stages of a store with their figures, and what holds them up."""
    causes = [*find_causes(status, speeds, now)]
    running = status.owner is not None or bool(status.fleet and status.fleet.workers)
    stages = [_with_causes(stage, causes, running=running) for stage in _figures(status, speeds)]
    if _is_paused(status):
        stages = [_paused(stage) for stage in stages]
    stalled = find_culprit(stages)
    state = _state_of(stages)
    verdict = _verdict(status, stages, stalled, speeds, running=running)
    return PipelinePicture(
        at=now, stages=stages, verdict=verdict, stalled="" if stalled is None else stalled.name, state=state
    )


def find_culprit(stages: Sequence[StageFigures]) -> StageFigures | None:
    """Return the stalled stage that holds up the others: the last full one, else that with most waiting."""

    def rank(place: int) -> tuple[bool, int, int]:
        is_full = any(cause.kind == "stage" for cause in stages[place].causes)
        return is_full, place if is_full else stages[place].depth, place

    found = [place for place, stage in enumerate(stages) if stage.state == "stalled"]
    return stages[max(found, key=rank)] if found else None


def unavailable_picture(
    before: PipelinePicture | None, why: str, since_s: float, now: float
) -> PipelinePicture:
    """Return the picture while the store does not answer: the last figures, marked as such."""
    text = f"the store has not answered for {duration(since_s)}: {why}"
    cause = StageCause(stage="frontier", level="stalled", kind="store", about="", text=text)
    known = before.stages if before is not None else [*_figures(StoreStatus("", None, ()), Speeds())]
    stages = [
        msgspec.structs.replace(
            stage,
            state="stalled" if stage.name == "frontier" else "idle",
            rate=None,
            lag_s=None,
            causes=[cause] if stage.name == "frontier" else [],
        )
        for stage in known
    ]
    return PipelinePicture(at=now, stages=stages, verdict=text, stalled="frontier", state="unavailable")


def find_causes(status: StoreStatus, speeds: Speeds, now: float) -> Iterator[StageCause]:
    """Yield what holds stages up, the worst first."""
    found = [*find_bottlenecks(status, now)]
    if status.fleet is None:
        found += of_hosts(status.hosts or (), now)
    # Alerts whose condition is over are still active for a moment.
    alerts = [alert for alert in status.alerts if alert.held_at >= status.alerts_at]
    named = [
        *(_of_alert(alert, status, speeds) for alert in alerts),
        *(_cause(one, status, fetched=bool(speeds.attempts)) for one in beyond_alerts(found, alerts)),
    ]
    yield from named
    for crawl in status.crawls:
        if (AlertKind.TRAP_CLOSED, crawl.name) not in {alert.key for alert in alerts}:
            yield from _traps(crawl)
    if _is_paused(status) or (status.owner is None and not (status.fleet and status.fleet.workers)):
        return
    held = {cause.stage for cause in named if cause.level in ("stalled", "held")}
    # A stalled stage is the reason why those before it wait.
    stalled = max((STAGES.index(cause.stage) for cause in named if cause.level == "stalled"), default=-1)
    for stage, seconds in speeds.quiet_s.items():
        if seconds >= QUIET_S and stage not in held and STAGES.index(stage) > stalled:
            yield StageCause(
                stage=stage, level="stalled", kind="quiet", about="", text=_quiet_text(stage, seconds)
            )


def _of_alert(alert: Alert, status: StoreStatus, speeds: Speeds) -> StageCause:
    stage = alert.stage if alert.stage in STAGES else STAGES[0]
    level = _alert_level(alert, status, speeds)
    return StageCause(stage=stage, level=level, kind="alert", about=alert.about, text=alert.text)


def _alert_level(alert: Alert, status: StoreStatus, speeds: Speeds) -> str:
    passes = {"fetch": speeds.attempts, "parse": speeds.parsed}.get(alert.stage)
    if alert.kind in _STALL_ALERTS:
        # One worker, crawl or pool, or the exits of one kind, may stand still while others work.
        is_part = alert.kind is AlertKind.STAGE_STALLED or alert.about.startswith("pool ")
        is_part = is_part or (alert.kind is AlertKind.EXITS_DOWN and alert.about != "")
        return "held" if is_part and passes else "stalled"
    if alert.kind in _HOST_ALERTS:
        return "stalled" if not passes and _all_held(status) else "held"
    return "held" if alert.kind in _HELD_ALERTS else "notice"


def _quiet_text(stage: str, seconds: float) -> str:
    whole = duration(seconds)
    match stage:
        case "parse":
            return f"no page was parsed for {whole}: look at the log of the workers with the role parse"
        case "sink":
            return f"no item was written for {whole}: an output does not accept items; see its server or disk"
        case _:
            return f"no request ended for {whole}: shoal top shows what the workers wait for"


def _cause(one: Bottleneck, status: StoreStatus, *, fetched: bool) -> StageCause:
    level = _level(one, status, fetched=fetched)
    return StageCause(stage=one.stage, level=level, kind=one.kind, about=one.about, text=one.text)


def _level(one: Bottleneck, status: StoreStatus, *, fetched: bool) -> str:
    if one.kind == "exits" and one.about:  # those of one kind
        return "held" if fetched else "stalled"
    if one.kind in _STALLS or (one.kind == "crawl" and _CRAWL_REFUSED in one.text):
        return "stalled"
    if not fetched and (one.kind == "pool" or (one.kind == "host" and _all_held(status))):
        return "stalled"
    return "held"


def _all_held(status: StoreStatus) -> bool:
    """Return whether every request that waits is for a host that rests or is paused."""
    waiting = [host for host in status.hosts or () if host.queued]
    return bool(waiting) and all(host.paused or host.rest_until for host in waiting)


def _traps(crawl: CrawlStatus) -> Iterator[StageCause]:
    for pattern, why in list(crawl.closed.items())[:3]:
        text = (
            f"{crawl.name} holds back the links of the pattern {pattern}: more than"
            f" {count(why.more_than)} pages bring nothing new, such as {why.example}"
        )
        yield StageCause(stage="frontier", level="notice", kind="trap", about=crawl.name, text=text)


def _left(crawl: CrawlStatus) -> int:
    counts = crawl.counts
    return sum(counts.get(state, 0) for state in ("waiting", "delayed", "leased", "parsing"))


def _is_paused(status: StoreStatus) -> bool:
    """Return whether every crawl that has requests left is paused."""
    left = [crawl for crawl in status.crawls if _left(crawl)]
    return bool(left) and all(crawl.paused for crawl in left)


def _figures(status: StoreStatus, speeds: Speeds) -> Iterator[StageFigures]:
    totals = {state: sum(crawl.counts.get(state, 0) for crawl in status.crawls) for state in _STATES}
    waiting = totals["waiting"] + totals["delayed"]
    fleet = status.fleet
    unwritten = sum(stages["sink"].waiting for stages in fleet.stages.values()) if fleet else 0
    parsing = sum(at.parsing for worker in fleet.workers for at in worker.crawls) if fleet else 0
    written = sum(at.doing == "writing" for worker in fleet.workers for at in worker.outputs) if fleet else 0
    yield _stage(
        "frontier",
        waiting,
        "URLs",
        0,
        speeds.new_links,
        "new",
        lag=_lag(waiting, speeds.attempts),
        detail=f"{count(totals['delayed'])} to retry" if totals["delayed"] else "",
    )
    median = "" if speeds.median_ms is None else f"{speeds.median_ms:,.0f} ms"
    leased = totals["leased"]
    yield _stage("fetch", leased, "URLs", leased, speeds.attempts, "requests", detail=median)
    received = f"{size(round(speeds.bytes))}/s" if speeds.bytes else ""
    archived = totals["done"] + totals["parsing"]
    yield _stage("archive", 0, "pages", 0, speeds.pages, "pages", detail=received, total=archived)
    yield _stage(
        "parse",
        totals["parsing"],
        "pages",
        parsing,
        speeds.parsed,
        "pages",
        lag=_lag(totals["parsing"], speeds.parsed),
    )
    yield _stage(
        "sink",
        unwritten,
        "pages",
        written,
        speeds.items,
        "items",
        lag=_lag(unwritten, speeds.parsed),
    )


_STATES = ("waiting", "delayed", "leased", "parsing", "done", "gone", "dead", "filtered", "held")


def _lag(depth: int, rate: float | None) -> float | None:
    if not depth:
        return 0.0
    return depth / rate if rate else None


def _stage(  # noqa: PLR0917 - a row of a table
    name: str,
    depth: int,
    unit: str,
    in_progress: int,
    rate: float | None,
    rate_unit: str,
    *,
    lag: float | None = 0.0,
    detail: str = "",
    total: int = 0,
) -> StageFigures:
    return StageFigures(
        name=name,
        state="running" if rate else "idle",
        depth=depth,
        unit=unit,
        in_progress=in_progress,
        rate=rate,
        rate_unit=rate_unit,
        lag_s=lag,
        total=total,
        detail=detail,
    )


def _with_causes(stage: StageFigures, causes: Sequence[StageCause], *, running: bool) -> StageFigures:
    own = [cause for cause in causes if cause.stage == stage.name]
    levels = {cause.level for cause in own}
    state = stage.state
    if "stalled" in levels:
        state = "stalled"
    elif "held" in levels:
        state = "held"
    elif running and state == "idle" and stage.depth:
        state = "running"
    return _replaced(stage, state, own)


def _paused(stage: StageFigures) -> StageFigures:
    return _replaced(stage, "paused", stage.causes) if stage.state != "stalled" else stage


def _replaced(stage: StageFigures, state: str, causes: Sequence[StageCause]) -> StageFigures:
    return msgspec.structs.replace(stage, state=state, causes=list(causes))


def _state_of(stages: Sequence[StageFigures]) -> str:
    states = {stage.state for stage in stages}
    return next((one for one in ("stalled", "paused", "held", "running") if one in states), "idle")


def _verdict(
    status: StoreStatus,
    stages: Sequence[StageFigures],
    stalled: StageFigures | None,
    speeds: Speeds,
    *,
    running: bool,
) -> str:
    if stalled is not None:
        [first, *_] = [cause for cause in stalled.causes if cause.level == "stalled"]
        return f"{stalled.name} is stalled: {first.text}"
    left = sum(map(_left, status.crawls))
    if not status.crawls:
        return "no crawl yet: shoal crawl URL starts one"
    stopped = [crawl for crawl in status.crawls if crawl.stopped]
    if stopped and all(crawl.stopped for crawl in status.crawls if _left(crawl)):
        return f"{stopped[0].name} has stopped: {stopped[0].stopped}"
    if any(stage.state == "paused" for stage in stages):
        return f"paused, with {plural(left, 'URL')} left: shoal resume continues"
    held = next((cause for stage in stages for cause in stage.causes if cause.level == "held"), None)
    if held is not None:
        return held.text
    if not left:
        return "every crawl is finished"
    if not running:
        return f"not running, with {plural(left, 'URL')} left: run the same command to resume"
    if speeds.attempts is None:
        return "running"
    lag = next(stage.lag_s for stage in stages if stage.name == STAGES[0])
    rest = f", {duration(lag)} left at this speed" if lag else ""
    return f"running at {speeds.attempts:,.1f} requests/s{rest}"
