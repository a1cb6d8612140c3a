"""Whether a fleet's store is fit for its work: what its servers say of themselves, judged.

Gathering changes nothing and asks nobody but the store; judging is pure.
"""

from collections.abc import Iterator, Sequence

from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.limits import MIB
from shoal.redis_client import RedisClient, health, parse
from shoal.redis_client import durability as disk
from shoal.redis_client.inspect import ServerReport, inspect_servers
from shoal.services.doctor.checks import Check, Grade, check
from shoal.services.inspect.fleet_verify import steady_audit
from shoal.stores.redis.workers import Workers

SLOW = 0.02  # seconds for an answer, beyond which every lease feels it
NEARLY_FULL = 0.8
_REACH = "start it, or mend the address: --store or SHOAL_STORE; is a firewall in between?"


async def examine_fleet(dsn: str) -> list[Check]:
    """Ask a store how it is."""
    store = parse(dsn)
    try:
        servers = await inspect_servers(store)
    except ShoalError as error:
        return [Check("store", Grade.FAIL, str(error), _REACH)]
    # Whoever names sentinels or a cluster counts on a replica to take over.
    replaced = store.scheme in ("redis+sentinel", "redis+cluster")
    checks = [
        check
        for server in servers
        for check in judge_server(server, of_many=len(servers) > 1, replaced=replaced)
    ]
    if all(check.grade is not Grade.FAIL for check in checks):
        checks.append(await _crawls(dsn))
    return checks


def judge_server(server: ServerReport, *, of_many: bool = False, replaced: bool = False) -> Iterator[Check]:
    """Grade one master; whatever is not fine comes with its fix. `replaced`: it should be, if it dies."""
    told = server.facts
    at = f"{server.where}: " if of_many else ""
    kind = (
        f"Valkey {told['valkey_version']}" if "valkey_version" in told else f"Redis {told['redis_version']}"
    )
    try:
        health.reject_unfit({"redis_version": told.get("redis_version", "0")}, where=server.where)
    except Misconfigured as error:
        yield Check("store", Grade.FAIL, str(error), "upgrade the server")
    else:
        yield check(
            "store",
            f"{server.where}: {kind}, answers in {server.took * 1000:.1f} ms",
            warn=server.took > SLOW,
            fix="put workers and store nearer to one another, or find out what keeps the server busy",
        )
    yield _policy(told.get("maxmemory_policy", "noeviction"), at)
    yield _memory(int(told.get("used_memory", 0)), int(told.get("maxmemory", 0)), at)
    yield _persistence(server, at)
    replicas = int(told.get("connected_slaves", "0"))
    yield check(
        "store replicas",
        f"{at}{replicas or 'none'}",
        warn=replaced and not replicas,
        fix="start its replica, or add one: nobody can take over, and a promise is on one machine only",
    )


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
        fix="give it more memory, or let the crawls be worked off",
    )


def _persistence(server: ServerReport, at: str) -> Check:
    name = "store persistence"
    if server.facts.get("aof_last_write_status", "ok") != "ok":
        return Check(name, Grade.FAIL, f"{at}the last write to its log has failed", "make room on its disk")
    warning = health.persistence_advice(dict(server.facts), save=server.save)
    if warning is None:
        return Check(name, Grade.OK, f"{at}a log of every change{_what_it_does_not_tell(server)}")
    finding, _, fix = warning.partition(": ")
    return Check(name, Grade.WARN, f"{at}{finding}", " ".join(fix.split()))


def _what_it_does_not_tell(server: ServerReport) -> str:
    if health.version(dict(server.facts)) >= disk.WAITAOF_SINCE:
        return ""
    return "; before 7.2 Redis does not tell when it is on disk, so a file may repeat items after a crash"


async def _crawls(dsn: str) -> Check:
    problems: list[str] = []
    try:
        async with RedisClient.open(dsn, advise=False) as store:
            frontier, workers = RedisFrontier(store), await Workers(store).all()
            names: Sequence[str] = await frontier.reader.crawls()
            for name in names:
                audit = await steady_audit(frontier, name, at_work=bool(workers))
                problems += [f"{name}: {problem}" for problem in audit.problems]
    except ShoalError as error:
        return Check("store crawls", Grade.FAIL, str(error), _REACH)
    if problems:
        return Check(
            "store crawls", Grade.FAIL, problems[0], "shoal verify tells more, --repair puts it right"
        )
    return Check("store crawls", Grade.OK, f"{len(names)}, sound; {len(workers)} workers")
