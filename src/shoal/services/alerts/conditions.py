"""Which conditions hold: pure functions of a window of observations, oldest first.

Each yields an alert candidate with the stage, the cause and what to do, in plain words.
"""

from collections.abc import Iterator, Mapping, Sequence

from shoal.engine.fetch_log.meter import BUCKETS_S, ERROR, RATE_LIMITED, SUCCESS, FailingHost
from shoal.frontier.results import HostView
from shoal.model.alert import Alert, AlertKind, Level
from shoal.model.format import count, duration, plural, size
from shoal.model.settings import AlertSettings
from shoal.services.alerts.observation import increase, merged_trouble
from shoal.services.alerts.stalls import find_stalls
from shoal.services.alerts.window import Window, candidate, ended
from shoal.services.inspect.status import CrawlStatus
from shoal.worker.figures import WorkerFigures

MAX_HOSTS = 20  # that get a separate alert
BUSY = 0.8  # share of the slots in use from which on more workers help
_WORDS = {
    "rate_limited": "answers 429",
    "ip_blocked": "answers 403",
    "anti_bot": "shows challenges",
    "target_error": "answers with server errors (5xx)",
    "timeout": "does not answer in time",
    "connect": "refuses connections",
    "dns": "has no address",
    "tls": "fails the TLS handshake",
    "http_error": "rejects requests (4xx)",
}


def find_conditions(window: Window, rules: AlertSettings) -> list[Alert]:
    """Return the conditions that hold now."""
    return [
        *window.now.schedules,
        *find_stalls(window, rules),
        *_hosts(window, rules),
        *_rates(window, rules),
        *_crawls(window, rules),
        *_queue(window, rules),
    ]


# --- hosts ---------------------------------------------------------------------------------------


def _hosts(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    """Yield hosts most of whose requests fail, and hosts that refuse requests and are slowed down for it."""
    trouble = sorted(
        merged_trouble(window.now.current).values(), key=lambda one: -(one.failures + one.refused)
    )
    for host in trouble[:MAX_HOSTS]:
        view = window.now.hosts.get(host.host)
        why, share = _WORDS.get(host.why, f"fails ({host.why})"), _share(host)
        if host.attempts >= rules.min_attempts and share < rules.host_success:
            cause = f"{host.host} {why}: {share:.0%} of its {plural(host.attempts, 'request')} succeed"
            yield candidate(
                window,
                AlertKind.HOST_FAILING,
                host.host,
                f"{cause}; {_pace_of(host, view, window.now.at)}",
                f"more workers will not help; shoal host show {host.host} shows its state, shoal host resume"
                f" {host.host} ends a pause",
                stage="fetch",
                value=share,
                limit=rules.host_success,
            )
        elif host.refused and _is_held(view, window.now.at):
            yield candidate(
                window,
                AlertKind.HOST_THROTTLED,
                host.host,
                f"{host.host} {why}; {_pace_of(host, view, window.now.at)}",
                "its pace rises by itself when it answers; more workers will not help",
                stage="fetch",
                value=host.refused,
            )


def _share(host: FailingHost) -> float:
    return 1 - host.failures / host.attempts if host.attempts else 1.0


def _is_held(view: HostView | None, now: float) -> bool:
    return view is not None and (view.rest_until > now or view.slow > 1.0 or view.paused)


def _pace_of(host: FailingHost, view: HostView | None, now: float) -> str:
    """Return the pace of a host in words."""
    if view is not None and view.paused:
        return "it is paused"
    if view is not None and view.rest_until - now > 1.0:
        return f"it rests for {duration(view.rest_until - now)}"
    interval = host.interval if view is None else view.interval
    return f"its pace is now {1 / interval:.2g}/s" if interval > 0 else "its pace is not limited"


# --- rates over the window -----------------------------------------------------------------------


def _rates(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    """Yield what is wrong with the attempts of the window, over all workers."""
    recent = increase(window.now.figures, window.first.figures) if len(window.observations) > 1 else None
    if recent is None:
        return
    if recent.internal:
        cause = f"{plural(recent.internal, 'attempt')} failed because of a bug in Shoal"
        action = "attempt.internal in the logs has the traceback: report it"
        yield candidate(
            window, AlertKind.INTERNAL_ERROR, "", cause, action, stage="fetch", value=recent.internal
        )
    total = sum(recent.tasks.values())
    if total < rules.min_attempts:
        return
    share = recent.tasks.get(SUCCESS, 0) / total
    if share < rules.success:
        cause = (
            f"{share:.0%} of {plural(total, 'attempt')} succeed: {count(recent.tasks.get(ERROR, 0))} failed,"
            f" {count(recent.tasks.get(RATE_LIMITED, 0))} were asked to wait{_worst(window)}"
        )
        action = "shoal sql 'SELECT * FROM failures' shows the classes and hosts"
        yield candidate(
            window,
            AlertKind.SUCCESS_RATE,
            "",
            cause,
            action,
            stage="fetch",
            value=share,
            limit=rules.success,
        )
    yield from _latency(window, rules, recent)


def _worst(window: Window) -> str:
    trouble = merged_trouble(window.now.current)
    if not trouble:
        return ""
    worst = max(trouble.values(), key=lambda one: one.failures + one.refused)
    return f"; most of them at {worst.host}, which {_WORDS.get(worst.why, f'fails ({worst.why})')}"


def _latency(window: Window, rules: AlertSettings, recent: WorkerFigures) -> Iterator[Alert]:
    p95 = percentile(recent.buckets, 0.95)
    if sum(recent.buckets) < rules.min_attempts or p95 <= rules.p95:
        return
    through = "shoal proxy list shows the exits" if window.now.status.exits else "check the network"
    cause = f"5 % of {plural(sum(recent.buckets), 'request')} take longer than {duration(p95)}"
    action = f"{through}; shoal report shows the slow hosts, and what takes the time"
    yield candidate(window, AlertKind.LATENCY, "", cause, action, stage="fetch", value=p95, limit=rules.p95)


def percentile(buckets: Sequence[int], share: float) -> float:
    """Return a percentile of a histogram with the bounds `BUCKETS_S`, interpolated within its bucket."""
    wanted, seen = sum(buckets) * share, 0
    lows = (0.0, *BUCKETS_S)
    for low, high, number in zip(lows, (*BUCKETS_S, BUCKETS_S[-1]), buckets, strict=False):
        if number and seen + number >= wanted:
            return low + (high - low) * max(wanted - seen, 0.0) / number
        seen += number
    return 0.0


# --- crawls --------------------------------------------------------------------------------------


def _crawls(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    before = {crawl.name: crawl for crawl in window.first.status.crawls}
    for crawl in window.now.status.crawls:
        old = before.get(crawl.name) if len(window.observations) > 1 else None
        yield from _dead_letters(window, rules, crawl, old)
        if old is not None:
            yield from _traps(window, crawl, old)
        yield from _yield(window, crawl)
        if crawl.spending is not None and crawl.spending.share > rules.bandwidth:
            spent = f"{crawl.spending.share:.0%} of its budget for exits ({size(crawl.spending.bytes)})"
            yield candidate(
                window,
                AlertKind.BANDWIDTH,
                crawl.name,
                f"{crawl.name} has used {spent}",
                "raise crawl.budget or crawl.budget_gb, or fetch less; at 100 % crawl.over_budget applies",
                stage="fetch",
                value=crawl.spending.share,
                limit=rules.bandwidth,
            )


def _dead_letters(
    window: Window, rules: AlertSettings, crawl: CrawlStatus, old: CrawlStatus | None
) -> Iterator[Alert]:
    dead, total = crawl.counts["dead"], ended(crawl)
    worst = max(crawl.dead_by_class.items(), key=lambda pair: pair[1], default=("", 0))[0]
    mostly = f", mostly {worst}" if worst else ""
    action = f"shoal dlq list --crawl {crawl.name} shows them; shoal dlq replay tries them again"
    if old is not None and total - ended(old) >= rules.min_attempts:
        share = max(dead - old.counts["dead"], 0) / (total - ended(old))
        if share > rules.dead_letters:
            cause = f"{share:.0%} of the requests of {crawl.name} that ended lately are dead letters{mostly}"
            yield candidate(
                window,
                AlertKind.DEAD_LETTERS,
                crawl.name,
                cause,
                action,
                stage="fetch",
                value=share,
                limit=rules.dead_letters,
            )
    is_open = any(crawl.counts[state] for state in ("waiting", "delayed", "leased", "parsing"))
    if is_open and total >= rules.min_attempts and dead > total * rules.error_budget:
        cause = (
            f"{crawl.name} has spent its error budget: {count(dead)} of {count(total)} requests are dead"
            f" letters{mostly}, {rules.error_budget:.0%} were allowed"
        )
        yield candidate(
            window,
            AlertKind.ERROR_BUDGET,
            crawl.name,
            cause,
            action,
            stage="fetch",
            value=dead / total,
            limit=rules.error_budget,
        )


def _traps(window: Window, crawl: CrawlStatus, old: CrawlStatus) -> Iterator[Alert]:
    """Yield patterns that were closed within the window, or still hold back links, and large ones."""
    new = [pattern for pattern in crawl.closed if pattern not in old.closed]
    if crawl.closed and (new or _held(crawl) > _held(old)):
        pattern = new[-1] if new else next(iter(crawl.closed))
        cause = (
            f"{crawl.name} holds back the links of {_and_more(pattern, crawl.closed)}: its pages bring"
            f" nothing new, such as {crawl.closed[pattern].example}"
        )
        action = f"if they are real pages, shoal release {crawl.name} queues them"
        found = len(crawl.closed)
    elif large := [pattern for pattern in crawl.large if pattern not in old.large]:
        known = crawl.large[large[-1]]
        cause = (
            f"{crawl.name} has found more than {known.more_than:,} URLs of"
            f" {_and_more(large[-1], crawl.large)} within an hour, such as {known.example}"
        )
        action = "they are all crawled; if the site generates them, narrow --follow or pause the crawl"
        found = len(crawl.large)
    else:
        return
    yield candidate(window, AlertKind.TRAP_CLOSED, crawl.name, cause, action, stage="frontier", value=found)


def _and_more(pattern: str, patterns: Mapping[str, object]) -> str:
    more = f" and {plural(len(patterns) - 1, 'more pattern')}" if len(patterns) > 1 else ""
    return f"{pattern}{more}"


def _held(crawl: CrawlStatus) -> int:
    return crawl.counts.get("held", 0) + crawl.links_filtered_by_rule.get("held", 0)


def _yield(window: Window, crawl: CrawlStatus) -> Iterator[Alert]:
    """Yield what a crawl's generation yielded out of the range of those before."""
    if not crawl.yield_dropped:
        return
    first, *others = crawl.yield_dropped
    more = f" (and {plural(len(others), 'more figure')})" if others else ""
    yield candidate(
        window,
        AlertKind.YIELD_DROPPED,
        crawl.name,
        f"{crawl.name}: {first.text}{more}",
        f"outputs that are files are as before; shoal accept {crawl.name} takes the new data over",
        stage="sink",
        level=Level.CRITICAL,
        value=first.after,
        limit=first.before,
    )


def _queue(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    status = window.now.status
    depth = sum(
        crawl.counts["waiting"] + crawl.counts["delayed"]
        for crawl in status.crawls
        if not crawl.paused and not crawl.stopped
    )
    if depth <= rules.queue_depth:
        return
    slots = sum(figures.slots for figures in window.now.current)
    busy = sum(figures.busy for figures in window.now.current)
    if slots and busy >= BUSY * slots:
        action = "the workers are busy: start more of them"
    else:
        action = "the pace of the hosts is the limit: more workers will not help, a higher rate would"
    cause = f"{count(depth)} requests wait"
    yield candidate(
        window,
        AlertKind.QUEUE_DEPTH,
        "",
        cause,
        action,
        stage="fetch",
        value=depth,
        limit=rules.queue_depth,
    )
