"""The exits of a store and of this machine's settings: list them, try them, let one rest."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from shoal.engine.fetchers import ca_file_of, nameservers_of
from shoal.fetch.exits.exit_list import read_exits
from shoal.fetch.exits.ledger import CRAWL, read_spending
from shoal.fetch.exits.shared_health import EXIT, HOST, change_record, exit_key, read_records
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.exits.exit import ChosenExit, Exit, ExitWish, login
from shoal.model.exits.health import (
    ExitRecord,
    is_out,
    needs_probe,
    rested_by_hand,
    restored,
    success_rate,
)
from shoal.model.failure import Failure
from shoal.model.page import Response
from shoal.model.settings import Settings
from shoal.model.url import canonical
from shoal.stores.open import open_store, store_exists

CHECKED_AT_ONCE = 16
SEEN_WITHIN_S = 120.0  # an exit that no process has used for longer is not in use


@dataclass(frozen=True, slots=True)
class ExitState:
    """One exit, as a table shows it."""

    name: str
    kind: str
    country: str
    configured: bool  # in the settings of this command
    record: ExitRecord
    hosts_resting: int  # hosts for which it rests
    wire_bytes: int = 0  # by all crawls of the store

    def state(self, now: float) -> str:
        """Return in a word what happens to it."""
        if is_out(self.record, now):
            return "rests"
        if needs_probe(self.record, now):
            return "to be probed"
        if now - self.record.seen_at < SEEN_WITHIN_S:
            return "in use"
        return "not in use"


@dataclass(frozen=True, slots=True)
class ExitCheck:
    """What a request through an exit brought."""

    name: str
    elapsed: float
    status: int = 0
    failure: str = ""


async def list_exits(settings: Settings) -> list[ExitState]:
    """Return the exits of the settings and of the store, by name."""
    stored: Mapping[str, bytes] = {}
    if store_exists(settings.store):
        async with open_store(settings.store) as store:
            stored = await store.exits.all()
    traffic: Counter[str] = Counter()
    for key, packed in stored.items():
        if key.startswith(CRAWL):
            traffic.update(read_spending(packed).exits)
    return exit_states(read_exits(settings.proxies.list), read_records(stored), time.time(), traffic)


def exit_states(
    exits: Sequence[Exit],
    stored: Mapping[str, ExitRecord],
    now: float,
    traffic: Mapping[str, int] = MappingProxyType({}),
) -> list[ExitState]:
    """Return what is known of each exit that is configured here, or used by a process of the store."""
    configured = {exit.name: exit for exit in exits}
    names = sorted({*configured, *(key.removeprefix(EXIT) for key in stored if key.startswith(EXIT))})
    resting = Counter(
        key.removeprefix(HOST).partition("/")[0]  # no name of an exit has a slash
        for key, record in stored.items()
        if key.startswith(HOST) and is_out(record, now)
    )
    found = []
    for name in names:
        record, exit = stored.get(exit_key(name), ExitRecord()), configured.get(name)
        kind, country = (record.kind, record.country) if exit is None else (exit.kind, exit.country)
        size = traffic.get(name, 0)
        found.append(ExitState(name, kind, country, exit is not None, record, resting[name], size))
    return found


async def check_exits(settings: Settings, url: str) -> list[ExitCheck]:
    """Fetch a URL through every exit of the settings; one that works again is taken back into use."""
    exits = read_exits(settings.proxies.list)
    if not exits:
        raise Misconfigured("there are no exits to check: give --proxy, or set proxies.list")
    try:
        target = canonical(url)
    except Rejected as error:
        raise Misconfigured(f"{url!r} is not a URL: {error}") from None
    guard = Guard(address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private))
    room = asyncio.Semaphore(CHECKED_AT_ONCE)
    async with (
        DnsResolver(nameservers=nameservers_of(settings.crawl), timeout=settings.fetch.connect) as resolver,
        HttpClient(resolver, guard, ca_file=ca_file_of(settings.crawl)) as client,
    ):
        async with asyncio.TaskGroup() as group:
            checks = [group.create_task(_check(client, exit, target, settings, room)) for exit in exits]
    found = [check.result() for check in checks]
    if store_exists(settings.store):
        async with open_store(settings.store) as store:
            for one in found:
                record = read_records(await store.exits.all()).get(exit_key(one.name))
                if not one.failure and record is not None and record.rest_until:
                    await change_record(store.exits, exit_key(one.name), restored)
    return found


async def _check(
    client: HttpClient, exit: Exit, url: str, settings: Settings, room: asyncio.Semaphore
) -> ExitCheck:
    wish = ExitWish(settings.crawl.exit_kind, settings.crawl.country)
    via = ChosenExit(exit, login(exit, wish, session="check"), exit.kind, keep=False)
    async with room:
        began = time.monotonic()
        answer = await client.fetch(
            url, headers=(("User-Agent", settings.crawl.sent_user_agent),), limits=settings.fetch, via=via
        )
    found = ExitCheck(exit.name, time.monotonic() - began)
    if isinstance(answer, Response):
        return replace(found, status=answer.status)
    return replace(found, failure=answer.reason if isinstance(answer, Failure) else "not sent")


async def rest_exit(settings: Settings, name: str, seconds: float) -> ExitState:
    """Use an exit no longer for some seconds, in every process of the store; 0: use it again at once."""
    async with open_store(settings.store) as store:
        known = exit_states(
            read_exits(settings.proxies.list), read_records(await store.exits.all()), time.time()
        )
        if name not in [exit.name for exit in known]:
            names = ", ".join(exit.name for exit in known) or "none"
            raise Misconfigured(f"there is no exit named {name!r}; known: {names}")
        change = partial(rested_by_hand, now=time.time(), seconds=seconds) if seconds else restored
        record = await change_record(store.exits, exit_key(name), change)
        [found] = [exit for exit in known if exit.name == name]
        return replace(found, record=record)


def exit_json(exit: ExitState, now: float) -> dict[str, object]:
    record = exit.record
    rate, requests = success_rate(record, now)
    return {
        "name": exit.name,
        "kind": exit.kind,
        "country": exit.country,
        "configured": exit.configured,
        "state": exit.state(now),
        "rest_s": round(max(record.rest_until - now, 0.0), 1),
        "cause": record.cause,
        "why": record.why,
        "success": round(rate, 3),
        "recent": requests,
        "requests": record.total,
        "failures": record.total - record.successes,
        "in_a_row": record.run,
        "last_success": record.last_success,
        "last_failure": record.last_failure,
        "hosts_resting": exit.hosts_resting,
        "bytes": exit.wire_bytes,
    }


def check_json(check: ExitCheck) -> dict[str, object]:
    return {
        "name": check.name,
        "ok": not check.failure,
        "elapsed_s": round(check.elapsed, 3),
        "status": check.status,
        "failure": check.failure,
    }
