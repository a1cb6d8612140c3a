"""What keeps a stage from progressing: missing workers, exits that are down, stages and stores. Pure."""

from collections.abc import Iterator, Mapping

from shoal.model.alert import Alert, AlertKind, Level
from shoal.model.exits.health import exits_down, ready_at
from shoal.model.format import count, duration, plural, size
from shoal.model.settings import AlertSettings
from shoal.services.alerts.observation import Observation
from shoal.services.alerts.window import Window, candidate, ended
from shoal.services.inspect.bottlenecks import missing_roles, unwritten
from shoal.services.inspect.status import CrawlStatus
from shoal.stores.contract.fleet import MAX_UNPARSED_PAGES, MAX_UNWRITTEN_PAGES

BEHIND = {"parse": 0.9, "sink": 0.8}  # of the pages at which fetching pauses


def find_stalls(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    """Yield what keeps a stage from progressing."""
    yield from _workers(window)
    yield from _exits(window)
    yield from _stalled(window, rules)
    yield from _behind(window)
    yield from _room(window, rules)


# --- workers and exits ---------------------------------------------------------------------------


def _workers(window: Window) -> Iterator[Alert]:
    """Yield roles and pools that crawls wait for and no worker has."""
    status = window.now.status
    fleet = status.fleet
    if fleet is None:
        return
    kind, critical = AlertKind.NO_WORKER, Level.CRITICAL
    open_crawls = [crawl for crawl in status.crawls if not crawl.paused and not crawl.stopped]
    if not fleet.workers:
        waiting = sum(stage.waiting for crawl in open_crawls for stage in fleet.stages[crawl.name].values())
        if waiting:
            cause = f"no worker is running, and {plural(waiting, 'request')} or pages wait"
            action = "start shoal worker with the same --store"
            yield candidate(window, kind, "", cause, action, stage="fetch", level=critical, value=waiting)
        return
    for crawl in open_crawls:
        for role in missing_roles(fleet, crawl.name):
            waiting = fleet.stages[crawl.name][role].waiting
            what = {"parse": "fetched page", "sink": "page with items"}.get(role, "request")
            cause = f"no worker has the role {role}, and {plural(waiting, what)} of {crawl.name} wait for one"
            action = f"start shoal worker --roles {role}"
            about = f"{role} of {crawl.name}"
            yield candidate(window, kind, about, cause, action, stage=role, level=critical, value=waiting)
        for pool, waiting in crawl.unserved_pools.items():
            cause = (
                f"no worker serves the pool {pool}: {plural(waiting, 'request')} of {crawl.name} wait in it"
            )
            action = f"start shoal worker --pools {pool}"
            about = f"pool {pool} of {crawl.name}"
            yield candidate(window, kind, about, cause, action, stage="fetch", level=critical, value=waiting)


def _exits(window: Window) -> Iterator[Alert]:
    """Yield that all exits are down, or all exits of a kind that requests may ask for."""
    now = window.now.at
    for kind, down in exits_down(window.now.status.exits.values(), now):
        last = max(down, key=lambda record: record.last_failure)
        why = f", the last one because {last.why}" if last.why else ""
        wait = duration(max(min(map(ready_at, down)) - now, 0.0))
        of_kind = f" of kind {kind}" if kind else ""
        all_of_them = (
            f"the only exit{of_kind} is" if len(down) == 1 else f"all {len(down)} exits{of_kind} are"
        )
        effect = "requests that ask for this kind wait" if kind else "no request leaves"
        cause = f"{all_of_them} down{why}; {effect}, the next probe is in {wait}"
        action = "shoal proxy list says why; check the provider, or add exits to proxies.list"
        yield candidate(
            window,
            AlertKind.EXITS_DOWN,
            kind,
            cause,
            action,
            stage="fetch",
            level=Level.WARNING if kind else Level.CRITICAL,
            value=len(down),
        )


# --- stages without progress ---------------------------------------------------------------------


def _stalled(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    if window.now.status.fleet is not None:
        for crawl in window.now.status.crawls:
            if not crawl.paused:
                yield from _fleet_stages(window, rules, crawl)
    yield from _own_stages(window, rules)


def _fleet_stages(window: Window, rules: AlertSettings, crawl: CrawlStatus) -> Iterator[Alert]:
    """Yield the stages of a crawl of a fleet in which nothing has moved, although workers have the role."""
    fleet, old = window.now.status.fleet, _before(window, rules)
    assert fleet is not None
    missing = missing_roles(fleet, crawl.name) if fleet.workers else ["parse", "sink"]
    stages = fleet.stages[crawl.name]
    earlier = old.status.crawls if old is not None else ()
    before = next((one for one in earlier if one.name == crawl.name and one.counts["parsing"]), None)
    waiting = stages["parse"].waiting
    if waiting and "parse" not in missing and old and before and ended(crawl) == ended(before):
        cause = (
            f"{plural(waiting, 'page')} of {crawl.name} wait to be parsed, and none was finished for"
            f" {duration(window.now.at - old.at)}"
        )
        action = "see the logs of the workers with the role parse: does the spider hang?"
        yield _stall(window, f"parse of {crawl.name}", cause, action, stage="parse", value=waiting)
    if "sink" not in missing and (why := _blocked_output(window, old, crawl.name)):
        action = "shoal status names the worker that writes it; make room or repair the output"
        waiting = stages["sink"].waiting
        yield _stall(window, f"sink of {crawl.name}", why, action, stage="sink", value=waiting)


def _blocked_output(window: Window, old: Observation | None, crawl: str) -> str:
    """Return why the items of a crawl are not written; empty: they are."""
    fleet = window.now.status.fleet
    assert fleet is not None
    waiting = fleet.stages[crawl]["sink"].waiting
    for output in fleet.outputs.get(crawl, ()):
        attending = [
            (worker, at)
            for worker in fleet.workers
            for at in worker.outputs
            if (at.crawl, at.output) == (crawl, output)
        ]
        why = unwritten(attending)
        if why and (waiting or any(at.doing == "refused" for _, at in attending)):
            return f"{plural(waiting, 'page')} of {crawl} wait to be written to {output}: {why}"
    if not waiting or old is None or old.status.fleet is None:
        return ""
    stages = old.status.fleet.stages.get(crawl)
    if stages is None or stages["sink"].waiting == 0 or stages["sink"].waiting > waiting:
        return ""
    written = _items_written(window.now, crawl)
    if not written or written != _items_written(old, crawl):
        return ""
    outputs = ", ".join(fleet.outputs.get(crawl, ())) or "its outputs"
    return f"{plural(waiting, 'page')} of {crawl} wait to be written, and {outputs} takes no item"


def _items_written(observation: Observation, crawl: str) -> Mapping[str, int]:
    return {name: one.written[crawl] for name, one in observation.figures.items() if crawl in one.written}


def _own_stages(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    """Yield the stage in which a process has stood still, by what it reports of itself."""
    old = _before(window, rules)
    for figures in window.now.current:
        about = f"of {figures.worker}"
        if figures.committing_s > rules.stalled:
            stood = duration(figures.committing_s)
            if window.now.status.fleet is None:
                cause = f"the outputs take no items: writing has not progressed for {stood}"
                action = "is the disk or the database of an output blocked? The log names the outputs"
                yield _stall(window, f"sink {about}", cause, action, stage="sink", value=figures.parsing)
            else:
                cause = f"{figures.worker} has waited {stood} for the store to take the results of pages"
                action = "check the server of the store: its load, its memory and its disk"
                yield _stall(window, f"store {about}", cause, action, stage="store", value=figures.busy)
            continue
        before = old.figures.get(figures.worker) if old is not None else None
        if old is None or before is None or sum(figures.tasks.values()) != sum(before.tasks.values()):
            continue
        if figures.parsing and before.parsing:
            cause = (
                f"{plural(figures.parsing, 'page')} at {figures.worker} wait to be parsed, and none was"
                f" finished for {duration(window.now.at - old.at)}"
            )
            action = "does the spider hang? Its pages are given up after parse.wall seconds"
            yield _stall(window, f"parse {about}", cause, action, stage="parse", value=figures.parsing)
        elif figures.busy and before.busy and figures.oldest_lease_s > rules.stalled:
            cause = (
                f"{plural(figures.busy, 'request')} of {figures.worker} are on the way, and none has ended"
                f" for {duration(window.now.at - old.at)}"
            )
            action = "check the network of its machine; shoal top shows the hosts"
            yield _stall(window, f"fetch {about}", cause, action, stage="fetch", value=figures.busy)


def _before(window: Window, rules: AlertSettings) -> Observation | None:
    """Return the observation to compare with; the nearest one, because they are `rules.every` apart."""
    return window.before(rules.stalled - rules.every / 2)


def _stall(window: Window, about: str, cause: str, action: str, *, stage: str, value: float) -> Alert:
    kind, level = AlertKind.STAGE_STALLED, Level.CRITICAL
    return candidate(window, kind, about, cause, action, stage=stage, level=level, value=value)


def _behind(window: Window) -> Iterator[Alert]:
    """Yield the stages of crawls of a fleet that are so far behind that fetching will pause, or does."""
    fleet = window.now.status.fleet
    if fleet is None:
        return
    for crawl in window.now.status.crawls:
        missing = missing_roles(fleet, crawl.name) if fleet.workers else ["parse", "sink"]
        for stage, most, share, what in (
            ("parse", MAX_UNPARSED_PAGES, BEHIND["parse"], "wait to be parsed"),
            ("sink", MAX_UNWRITTEN_PAGES, BEHIND["sink"], "have items that wait to be written"),
        ):
            waiting = fleet.stages[crawl.name][stage].waiting
            if waiting <= most * share or stage in missing or crawl.paused:
                continue
            yield candidate(
                window,
                AlertKind.STAGE_BEHIND,
                f"{stage} of {crawl.name}",
                f"{plural(waiting, 'page')} of {crawl.name} {what}; fetching pauses above {count(most)}",
                f"start more workers: shoal worker --roles {stage}"
                if stage == "parse"
                else "its outputs are the limit: check their servers or disks",
                stage=stage,
                value=waiting,
                limit=most * share,
            )


# --- the store -----------------------------------------------------------------------------------


def _room(window: Window, rules: AlertSettings) -> Iterator[Alert]:
    room = window.now.room
    if room is None or not room.limit:
        return
    kind, critical = AlertKind.STORE_FULL, Level.CRITICAL
    share = room.used / room.limit
    if room.is_memory and share > rules.store_memory:
        cause = (
            f"{room.where} uses {size(room.used)} of {size(room.limit)} of memory; full, it takes no links"
        )
        action = "raise maxmemory there, or pause crawls that find many links: shoal pause CRAWL"
        limit = rules.store_memory
        yield candidate(
            window, kind, "", cause, action, stage="store", level=critical, value=share, limit=limit
        )
    elif not room.is_memory and room.free < rules.disk_free:
        cause = f"the disk of {room.where} has {size(room.free)} left"
        action = "make room, or shorten archive.keep_days and fetch_log.keep_days"
        limit = rules.disk_free
        yield candidate(
            window, kind, "", cause, action, stage="store", level=critical, value=room.free, limit=limit
        )
