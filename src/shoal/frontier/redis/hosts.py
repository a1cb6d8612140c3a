"""Hosts on Redis: their pace, rests and pauses, and how they are shown."""

from shoal.frontier.redis.dead_letters import RedisDeadLetters
from shoal.frontier.redis.held_leases import HeldLeases
from shoal.frontier.redis.packing import fitting
from shoal.frontier.redis.rate_tickets import RateTickets
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.shard_picker import ShardPicker
from shoal.frontier.redis.views import view_of, views_in
from shoal.frontier.results import HostView
from shoal.redis_client import RedisClient

NOT_SET = -1  # instead of an interval, burst or concurrency: what the crawls say


class RedisHosts(RedisDeadLetters):
    def __init__(self, store: RedisClient, scripts: Scripts, rota: ShardPicker) -> None:
        super().__init__(store, scripts, rota)
        self._hand = HeldLeases()
        self._turns = RateTickets(store, scripts.rate_ticket)

    async def host_set(
        self,
        host: str,
        *,
        interval: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        crawl_delay: float | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Give a host a pace of its own, a rest or a pause; what is not given stays as it is."""
        stopped = None if paused is None else int(paused)
        several = [None if number is None else fitting(number) for number in (burst, concurrency)]
        return await self._host_set(host, interval, *several, crawl_delay, rest_until, stopped)

    async def host_clear(self, host: str) -> HostView:
        """Forget the pace that `host_set` gave a host: what the crawls say applies again."""
        return await self._host_set(host, NOT_SET, NOT_SET, NOT_SET, None, None, None)

    async def _host_set(self, host: str, *given: float | None) -> HostView:
        tag = self._store.tag_of(host)
        arguments = ["" if one is None else one for one in given]
        told = await self._store.run(
            self._scripts.host_set, tag, [host, *arguments, self._hand.take_landed(tag)], replicated=True
        )
        self._rota.wake(self._store.shard_of(host))
        return view_of(told, self._names)

    async def turn(self, host: str, *, interval: float, leeway: float) -> float:
        """Let one request to a host leave within `leeway` seconds from now: 0.0; or say how long to wait."""
        return await self._turns.take(host, interval, leeway)

    async def host_get(self, host: str) -> HostView | None:
        """Show one host; None: nobody has heard of it, or for long."""
        tag = self._store.tag_of(host)
        told = await self._store.run(self._scripts.host_get, tag, [host, self._hand.take_landed(tag)])
        return None if told is None else view_of(told, self._names)

    async def hosts(self) -> list[HostView]:
        """Show every host of the crawls that are open."""
        shards = await self._everywhere(self._hosts_in(tag) for tag in self._store.tags())
        return [view for views in shards for view in views]

    async def _hosts_in(self, tag: str) -> list[HostView]:
        return await views_in(
            self._store, self._scripts, tag, self._names, lambda: self._hand.take_landed(tag)
        )

    async def robots_set(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        """Remember a robots.txt until it expires."""
        await self._store.run(
            self._scripts.robots_set, self._store.tag_of(host), [host, expires, status, body]
        )
