"""Findings about the servers of a shared store, for `shoal doctor`.

Gathering facts changes nothing and contacts only the store; judging them is pure.
"""

from collections.abc import Iterator

from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.limits import MIB
from shoal.redis_client import durability as disk
from shoal.redis_client import health, parse
from shoal.redis_client.inspect import ServerReport, inspect_servers
from shoal.stores.contract.checks import Check, Grade, StoreHealth, check
from shoal.stores.contract.crawl_record import LOCAL_FOLDER
from shoal.stores.redis.store import RedisStore

NEAR_S = 0.02  # a worker this far away has the pace of every host
FAR_S = 0.3  # the longest round trip that tests cover; a fleet is polite beyond it, and slower
NEARLY_FULL = 0.8  # share of maxmemory
_UNREACHABLE = "start it, or correct the address: --store or SHOAL_STORE; is a firewall in between?"


async def examine_servers(dsn: str, *, folder: str = LOCAL_FOLDER) -> StoreHealth:
    return StoreHealth(folder, await _examine(dsn))


async def _examine(dsn: str) -> list[Check]:
    try:
        address = parse(dsn)
        servers = await inspect_servers(address)
    except ShoalError as error:
        return [Check("store", Grade.FAIL, str(error), _UNREACHABLE)]
    # An address with sentinels or a cluster implies that a replica takes over from a failed master.
    replaced = address.scheme in ("redis+sentinel", "redis+cluster")
    checks = [
        check
        for server in servers
        for check in judge_server(server, of_many=len(servers) > 1, replaced=replaced)
    ]
    if all(check.grade is not Grade.FAIL for check in checks):
        checks.append(await _check_crawls(dsn))
    return checks


def judge_server(server: ServerReport, *, of_many: bool = False, replaced: bool = False) -> Iterator[Check]:
    """Grade one master. `replaced`: a replica is expected to take over if it fails."""
    facts = server.facts
    at = f"{server.where}: " if of_many else ""
    kind = (
        f"Valkey {facts['valkey_version']}"
        if "valkey_version" in facts
        else f"Redis {facts['redis_version']}"
    )
    try:
        health.reject_unfit({"redis_version": facts.get("redis_version", "0")}, where=server.where)
    except Misconfigured as error:
        yield Check("store", Grade.FAIL, str(error), "upgrade the server")
    else:
        yield Check("store", Grade.OK, f"{server.where}: {kind}")
        yield _distance(server, at)
    yield _policy(facts.get("maxmemory_policy", "noeviction"), at)
    yield _memory(int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0)), at)
    yield _persistence(server, at)
    replicas = int(facts.get("connected_slaves", "0"))
    yield check(
        "store replicas",
        f"{at}{replicas or 'none'}",
        warn=replaced and not replicas,
        fix="start its replica, or add one: no server can take over, and a promise is on one machine only",
    )


def _distance(server: ServerReport, at: str) -> Check:
    """Grade the round trip to a server: a change of the worker that asks a host costs up to twice as much."""
    measured = f"{at}{server.took * 1000:.1f} ms median, {server.worst * 1000:.1f} ms worst round trip"
    fix = "move workers and store closer together, or find out what keeps the server busy"
    if server.took > FAR_S:
        return Check(
            "store distance", Grade.WARN, f"{measured}: hosts are fetched slower than their pace", fix
        )
    if server.took > NEAR_S:
        text = f"{measured}: hosts keep their pace, but starting and small crawls take longer"
        return Check("store distance", Grade.WARN, text, fix)
    return Check("store distance", Grade.OK, f"{measured}: fine")


def _policy(policy: str, at: str) -> Check:
    if policy == "noeviction":
        return Check("store eviction", Grade.OK, f"{at}none")
    fix = "run there: CONFIG SET maxmemory-policy noeviction; and set it in the server's configuration"
    return Check("store eviction", Grade.FAIL, f"{at}{policy}: URLs would vanish when it is full", fix)


def _memory(used: int, limit: int, at: str) -> Check:
    if not limit:
        fix = (
            "set maxmemory to what its machine can spare: then adding is refused in time, and nothing is lost"
        )
        return Check("store memory", Grade.WARN, f"{at}{used / MIB:,.0f} MiB used, no limit", fix)
    finding = f"{at}{used / MIB:,.0f} of {limit / MIB:,.0f} MiB used"
    return check(
        "store memory",
        finding,
        warn=used > limit * NEARLY_FULL,
        fix="give it more memory, or wait until its crawls have progressed",
    )


def _persistence(server: ServerReport, at: str) -> Check:
    name = "store persistence"
    if server.facts.get("aof_last_write_status", "ok") != "ok":
        return Check(name, Grade.FAIL, f"{at}the last write to its log has failed", "make room on its disk")
    warning = health.persistence_advice(dict(server.facts), save=server.save)
    if warning is None:
        return Check(name, Grade.OK, f"{at}a log of every change{_disk_caveat(server)}")
    finding, _, fix = warning.partition(": ")
    return Check(name, Grade.WARN, f"{at}{finding}", " ".join(fix.split()))


def _disk_caveat(server: ServerReport) -> str:
    if health.version(dict(server.facts)) >= disk.WAITAOF_SINCE:
        return ""
    return (
        "; before 7.2 Redis does not report when a write is on disk, so a file may repeat items after a crash"
    )


async def _check_crawls(dsn: str) -> Check:
    problems: list[str] = []
    try:
        async with RedisStore.open(dsn) as store:
            names, workers = await store.crawls.names(), await store.workers.all()
            for name in names:
                problems += [f"{name}: {problem}" for problem in (await store.crawls.audit(name)).problems]
    except ShoalError as error:
        return Check("store crawls", Grade.FAIL, str(error), _UNREACHABLE)
    if problems:
        return Check("store crawls", Grade.FAIL, problems[0], "shoal verify shows more, --repair repairs it")
    return Check("store crawls", Grade.OK, f"{len(names)}, sound; {len(workers)} workers")
