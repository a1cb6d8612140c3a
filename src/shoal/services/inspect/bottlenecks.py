"""Why nothing happens: what keeps the crawls of a store from progressing, and what to do about it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from shoal.model.alert import AlertKind
from shoal.model.exits.health import exits_down, ready_at
from shoal.model.format import count, duration, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.frontier.results import HostQueue
    from shoal.model.alert import Alert
    from shoal.model.exits.health import ExitRecord
    from shoal.services.inspect.status import CrawlStatus, FleetStatus, StoreStatus
    from shoal.stores.contract.heartbeat import Heartbeat, OutputActivity

MAX_HOSTS = 5  # named; the others are counted
MIN_SLOW = 1.05  # a host that is slowed down by less is at its usual pace for people
MIN_REST_S = 1.0  # a shorter rest is over before it is read


class Bottleneck(msgspec.Struct, frozen=True):
    kind: str  # "workers", "role", "pool", "crawl", "stage", "output", "host", "exits"
    about: str  # a crawl or a host; empty: the whole store
    text: str  # for people
    stage: str = "fetch"  # that does not progress: "fetch", "parse" or "sink"


def find_bottlenecks(status: "StoreStatus", now: float) -> Iterator[Bottleneck]:
    """Yield what keeps the crawls of a store from progressing, the worst first."""
    fleet = status.fleet
    yield from of_exits(status.exits, now)
    if fleet is None:
        for crawl in status.crawls:
            yield from _halted(crawl)
        return
    if not fleet.workers and any(_left(fleet, crawl.name) for crawl in status.crawls if not crawl.stopped):
        yield Bottleneck("workers", "", "no worker is running: start shoal worker with the same --store")
    for crawl in status.crawls:
        yield from _of_crawl(fleet, crawl)
    yield from of_hosts(status.hosts or (), now)


def beyond_alerts(found: "Iterable[Bottleneck]", alerts: "Sequence[Alert]") -> "Iterator[Bottleneck]":
    """Yield the bottlenecks that no alert is about, for a screen that shows both."""
    kinds = {alert.kind for alert in alerts}
    hosts = {alert.about for alert in alerts if alert.kind in _HOST_ALERTS}
    stalled = any(alert.kind is AlertKind.STAGE_STALLED and alert.stage == "sink" for alert in alerts)
    for one in found:
        if one.kind in ("workers", "role", "pool") and AlertKind.NO_WORKER in kinds:
            continue
        if (one.kind == "exits" and AlertKind.EXITS_DOWN in kinds) or (one.kind == "output" and stalled):
            continue
        if one.kind == "host" and one.about in hosts:
            continue
        yield one


_HOST_ALERTS = (AlertKind.HOST_FAILING, AlertKind.HOST_THROTTLED)


def _left(fleet: "FleetStatus", crawl: str) -> bool:
    return any(stage.waiting or stage.in_hand for stage in fleet.stages[crawl].values())


def _of_crawl(fleet: "FleetStatus", crawl: "CrawlStatus") -> Iterator[Bottleneck]:
    yield from _halted(crawl)
    if crawl.stopped:
        return
    for role in missing_roles(fleet, crawl.name):
        text = f"{crawl.name} waits for a worker with the role {role}: shoal worker --roles {role}"
        yield Bottleneck("role", crawl.name, text, role)
    if fleet.workers:
        for pool, waiting in crawl.unserved_pools.items():
            text = (
                f"{crawl.name} has {plural(waiting, 'request')} in the pool {pool}, which no running worker"
                f" serves: shoal worker --pools {pool}"
            )
            yield Bottleneck("pool", crawl.name, text)
    for worker in fleet.workers:
        if why := worker.refused.get(crawl.name):
            yield Bottleneck("crawl", crawl.name, f"{worker.worker} cannot serve {crawl.name}: {why}")
    yield from _stages(fleet, crawl.name)
    yield from _outputs(fleet, crawl.name)


def _halted(crawl: "CrawlStatus") -> Iterator[Bottleneck]:
    if crawl.stopped:
        yield Bottleneck("crawl", crawl.name, f"{crawl.name} has stopped: {crawl.stopped}")
    if crawl.paused:
        text = f"{crawl.name} is paused: shoal resume {crawl.name} continues it"
        yield Bottleneck("crawl", crawl.name, text)


def missing_roles(fleet: "FleetStatus", crawl: str) -> list[str]:
    """Return the roles that a crawl waits for and no worker has; empty if there are no workers at all."""
    roles = {role for worker in fleet.workers for role in worker.roles}
    waited_for = [role for role, stage in fleet.stages[crawl].items() if stage.waiting]
    return [role for role in waited_for if role not in roles] if roles else []


def _stages(fleet: "FleetStatus", crawl: str) -> Iterator[Bottleneck]:
    from shoal.stores.contract.fleet import MAX_UNPARSED_PAGES, MAX_UNWRITTEN_PAGES

    for stage, most, what in (
        ("parse", MAX_UNPARSED_PAGES, "wait to be parsed"),
        ("sink", MAX_UNWRITTEN_PAGES, "have items that wait to be written"),
    ):
        waiting = fleet.stages[crawl][stage].waiting
        if waiting > most:
            text = f"{crawl} fetches no more for now: {count(waiting)} pages {what}, more than {count(most)}"
            yield Bottleneck("stage", crawl, text, stage)


def _outputs(fleet: "FleetStatus", crawl: str) -> Iterator[Bottleneck]:
    waiting = fleet.stages[crawl]["sink"].waiting
    for output in fleet.outputs.get(crawl, ()):
        attending = [
            (worker, at)
            for worker in fleet.workers
            for at in worker.outputs
            if (at.crawl, at.output) == (crawl, output)
        ]
        if (why := unwritten(attending)) and (waiting or any(at.doing == "refused" for _, at in attending)):
            yield Bottleneck("output", crawl, f"no worker writes {output} of {crawl}: {why}", "sink")


def unwritten(attending: "Sequence[tuple[Heartbeat, OutputActivity]]") -> str:
    """Return why no worker writes an output; empty: one does, or will within seconds."""
    by_doing = {at.doing: (worker, at) for worker, at in attending}
    if "writing" in by_doing or "waiting" in by_doing:
        return ""
    for doing in ("failing", "refused"):
        if doing in by_doing:
            worker, at = by_doing[doing]
            return f"{worker.worker} says: {at.why.removeprefix(f'output {at.output}: ')}"
    if "elsewhere" in by_doing and "standby" not in by_doing:
        _, at = by_doing["elsewhere"]
        return f"it belongs to the machine {at.why}, where no worker with the role sink is"
    return ""


def of_exits(exits: "Mapping[str, ExitRecord]", now: float) -> Iterator[Bottleneck]:
    """Yield a line if every exit in use rests, or every one of a kind: their requests wait."""
    for kind, down in exits_down(exits.values(), now):
        of_kind, what = (f" of kind {kind}", "requests for them") if kind else ("", "requests")
        text = (
            f"all {plural(len(down), 'exit')}{of_kind} rest, and {what} wait; the next one is probed in"
            f" {duration(min(map(ready_at, down)) - now)}: shoal proxy list says why"
        )
        yield Bottleneck("exits", kind, text)


def of_hosts(hosts: "Sequence[HostQueue]", now: float) -> Iterator[Bottleneck]:
    """Yield the hosts that rest, are paused or slowed down, those with most requests first."""
    queued: dict[str, HostQueue] = {}
    for host in hosts:
        if host.host not in queued or queued[host.host].queued < host.queued:
            queued[host.host] = host
    held = [(host, why) for host in queued.values() if (why := _host(host, now))]
    held.sort(key=lambda pair: -pair[0].queued)
    for host, why in held[:MAX_HOSTS]:
        yield Bottleneck("host", host.host, f"{host.host} {why}; {_wait_there(host.queued)}")
    if (more := len(held) - MAX_HOSTS) > 0:
        yield Bottleneck("host", "", f"and {plural(more, 'more host')} likewise")


def _wait_there(queued: int) -> str:
    return f"{plural(queued, 'request')} {'waits' if queued == 1 else 'wait'} there"


def _host(host: "HostQueue", now: float) -> str:
    if host.paused:
        return f"is paused: shoal host resume {host.host} continues it"
    if (rest := host.rest_until - now) > MIN_REST_S:
        return f"rests for {duration(rest)}: it answered 429 or 503, or it was paused for a while"
    if host.slow >= MIN_SLOW:
        return f"is asked {host.slow:.1f} times less often: it turns requests away"
    return ""


def host_remark(host: "HostQueue", now: float) -> str:
    """Return in a word or two why a host that is not paused is slow."""
    if (rest := host.rest_until - now) > MIN_REST_S:
        return f"rests {duration(rest)}"
    if host.slow >= MIN_SLOW:
        return f"slowed {host.slow:.1f}x"
    if host.crawl_delay and host.interval >= host.crawl_delay:
        return "robots.txt"
    return ""
