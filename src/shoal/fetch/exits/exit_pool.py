"""The exits of this process: chooses one for each request, and learns from what happens.

Faults of an exit are not faults of a URL: a request that meets one goes to another exit at once, and if
none is left it waits in the frontier without losing an attempt. Where an exit says that it cannot reach the
target, a second exit is asked before the target is blamed. When every exit rests, nothing is sent, nothing
is given up, and the log says so once.

An exit may also rest at one host: because the host turns it away, or because the exit refuses the host. If
every exit does, its requests wait at first (`PATIENT_RESTS`). After that they are sent, and end as they would
without exits: a host that is gone must not keep a crawl from finishing.

Health is shared through the store. Every process merges what it has seen about once a second, and takes
over what others have merged. There is no task for that: the request that finds it due does it. Between two
merges a process decides by what it has seen itself.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import msgspec

from shoal.fetch.exits.refusing_hosts import RefusingHosts
from shoal.fetch.exits.shared_health import SharedHealth, exit_key, host_key_of
from shoal.fetch.http.proxy_protocols import LOGIN_REFUSED
from shoal.model.adaptive_delay import Signal, is_block
from shoal.model.exits import choice
from shoal.model.exits.choice import ExitSession, Rotation
from shoal.model.exits.exit import ChosenExit, Exit, ExitWish, login, matches
from shoal.model.exits.health import UNHEALTHY, is_out, needs_probe, ready_at
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import OTHER_EXIT_S
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings

log = logging.getLogger(__name__)

MAX_EXITS_PER_ATTEMPT = 3
BUSY_WAIT_S = 5.0  # for a connection of a busy exit; then the request goes back to the frontier
OUT_WAIT_S = 30.0  # longest wait in the frontier while all exits rest
MIN_WAIT_S = 0.5
MAX_HOSTS = 20_000  # whose sessions are remembered
HOSTS_IN_A_ROW = 5  # that an exit cannot reach or refuses, after which it is the exit's fault
PATIENT_RESTS = 2  # in a row, that requests wait for where every exit rests
GATEWAY_CONNECTIONS = 100  # where every request has another address
# The connection was there, and then the exit or the target failed: counted at this host alone.
_AT_HOST = (FailureClass.TIMEOUT, FailureClass.TRUNCATED, FailureClass.TLS, FailureClass.PROTOCOL)
_PROXY_STATUSES = (502, 504)

Answer = Response | Failure | NotSent
Call = Callable[[ChosenExit], Awaitable[Answer]]


class _Wait(msgspec.Struct, frozen=True):
    seconds: float
    busy: bool = False  # an exit is there, with as many connections as it may have


class ExitPool:
    def __init__(
        self,
        exits: Sequence[Exit],
        settings: ProxySettings,
        *,
        worker: str,
        health: SharedHealth | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rotation = Rotation(settings.rotation)
        self._settings = settings
        self._worker = worker
        self._clock = clock
        self.all = tuple(self._limited(exit) for exit in exits)
        self.health = health or SharedHealth(self.all, cool_off=settings.cool_off, clock=clock)
        self.refusing = RefusingHosts(rule=settings.when_refused, rotation=self._rotation)
        self.health.also = self.refusing
        self._own = self.all  # the slice of this worker
        self._busy: Counter[str] = Counter()
        self._last = ""  # the exit that was used last
        self._uses = 0
        self._sessions: OrderedDict[tuple[str, ExitWish], ExitSession] = OrderedDict()
        self._unreached: defaultdict[str, set[str]] = defaultdict(set)
        self._freed = asyncio.Event()
        self._exhausted = False
        self._exhausted_hosts: set[str] = set()  # at which every exit rested when one was last wanted
        self._matching = lru_cache(maxsize=256)(self._find_matching)

    @property
    def is_exhausted(self) -> bool:
        """Whether every exit rested when one was last wanted."""
        return self._exhausted

    @property
    def has_several(self) -> bool:
        """Whether a request that was blocked can leave with another address."""
        return len(self.all) > 1 or any(exit.is_gateway for exit in self.all)

    def use_slice(self, number: int, count: int) -> None:
        """Use only the part of the list for worker `number` of `count`."""
        self._own = choice.slice_of(self.all, number, count)
        self._matching.cache_clear()

    def can_serve(self, wish: ExitWish) -> bool:
        return any(matches(exit, wish) for exit in self.all)

    async def send(self, call: Call, *, host: str, wish: ExitWish) -> tuple[Answer, ChosenExit | None]:
        """Make a request through an exit, or through others if that is at fault; return what came, by which.

        Return `NotSent` if no exit is free. The caller reports a response with `report`.
        """
        await self.health.sync()
        tried: list[str] = []
        suspect: ChosenExit | None = None
        last: Answer | None = None
        while True:
            via = await self._acquire(host, wish, tried)
            if via is None:
                reason = f"no exit is configured with {wish}: see shoal proxy list"
                return Failure(FailureClass.REFUSED, reason), None
            if isinstance(via, _Wait):
                if last is None:
                    return NotSent(via.seconds), suspect
                return (NotSent(OTHER_EXIT_S) if _is_own_fault(last) else last), suspect
            try:
                answer = await call(via)
            finally:
                self._release(via)
            tried.append(via.name)
            if isinstance(answer, NotSent):
                self.health.end_probes(self._keys(via.name, host))
                return answer, via
            if isinstance(answer, Failure) and answer.failure_class is FailureClass.PROXY_ERROR:
                self._charge(via, host, wish, answer)
                last = answer
                if len(tried) >= MAX_EXITS_PER_ATTEMPT:
                    return (NotSent(OTHER_EXIT_S) if _is_own_fault(answer) else answer), via
            elif suspect is None and _may_be_the_exit(answer) and self._has_other(host, wish, tried):
                suspect, last = via, answer
            else:
                self._note(via, host, answer, suspect)
                return answer, via

    def wish_for(self, host: str, wish: ExitWish) -> ExitWish:
        """Return what to ask of the exit of a host that may refuse addresses: perhaps another kind."""
        change = self.refusing.get(host, self._clock())
        if change is None or not change.kind:
            return wish
        other = ExitWish(change.kind, wish.country)
        return other if self.can_serve(other) else wish

    def can_move(self, host: str, wish: ExitWish) -> bool:
        """Return whether a host has another exit to go to, that works and was not refused there.

        `report` with a block moves it. Without one, only another client helps against a challenge.
        """
        session = self._sessions.get((host, wish))
        used = () if session is None or not session.exit else (session.exit,)
        return self._has_other(host, wish, used)

    def report(self, via: ChosenExit, host: str, wish: ExitWish, signal: Signal) -> None:
        """Record how the host has treated a response's exit."""
        blocked = is_block(signal)
        self.refusing.note(host, signal, self._clock())
        session = self._sessions.get((host, wish))
        if session is not None and session.exit == via.name:
            session.requests += 1
            session.blocks += blocked
            session.run = session.run + 1 if blocked else 0
        if blocked:
            if "{session}" in via.exit.template:
                return  # its session is burned; the next one has another address
            self.health.fail(host_key_of(via.name, host), "the host turned it away")
        else:
            self.health.succeed(host_key_of(via.name, host), only_known=True)

    # --- choosing --------------------------------------------------------------------------------

    async def _acquire(self, host: str, wish: ExitWish, tried: Sequence[str]) -> ChosenExit | _Wait | None:
        deadline = time.monotonic() + BUSY_WAIT_S
        while True:
            found = self._choose(host, wish, tried)
            if isinstance(found, ChosenExit):
                self._busy[self._busy_key(found)] += 1
                self._uses += 1
                self._last = found.name
                return found
            if found is None or not found.busy or (left := deadline - time.monotonic()) <= 0:
                return found
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._freed.wait()

    def _choose(self, host: str, wish: ExitWish, tried: Sequence[str]) -> ChosenExit | _Wait | None:
        now = self._clock()
        if not (matching := self._matching(wish)):
            return None
        ready, wait = self._ready(matching, host, tried, now)
        if not ready and not tried:
            ready = self._resting_at_host(matching, host, now)
        if not ready:
            if not tried:
                self._note_exhausted(matching, host, wait, now)
            return _Wait(wait)
        self._exhausted = False
        self._exhausted_hosts.discard(host)
        exit = self._pick(ready, self._session(host, wish, now), host, now)
        if exit is None:
            return _Wait(MIN_WAIT_S, busy=True)
        via = self._chosen(exit, host, wish, now)
        if self._busy[self._busy_key(via)] >= self._limit(via):
            return _Wait(MIN_WAIT_S, busy=True)
        for key in self._keys(exit.name, host):
            if needs_probe(self.health.get(key), now):
                self.health.probe(key)
        return via

    def _ready(
        self, exits: Sequence[Exit], host: str, tried: Sequence[str], now: float
    ) -> tuple[Sequence[Exit], float]:
        """Return the exits that may be used for a host, and the seconds until the next one may."""
        if not self.health.resting:  # by far the most frequent case, and lists may be long
            return [exit for exit in exits if exit.name not in tried] if tried else exits, MIN_WAIT_S
        ready, waits = [], [OUT_WAIT_S]
        for exit in exits:
            if exit.name in tried:
                continue
            records = [self.health.get(key) for key in self._keys(exit.name, host)]
            if out := [record for record in records if record is not None and is_out(record, now)]:
                waits.append(max(map(ready_at, out)) - now)
            else:
                ready.append(exit)
        return ready, max(min(waits), MIN_WAIT_S)

    def _resting_at_host(self, exits: Sequence[Exit], host: str, now: float) -> Sequence[Exit]:
        """Return the exits that rest at this host alone, if waiting for one of them has not helped."""
        found = []
        for exit in exits:
            record, at_host = (self.health.get(key) for key in self._keys(exit.name, host))
            if record is not None and is_out(record, now):
                if record.cause == UNHEALTHY and record.rests <= PATIENT_RESTS:
                    return []  # it may be back soon, and the host may accept it
            elif at_host is None or at_host.rests <= PATIENT_RESTS:
                return []
            else:
                found.append(exit)
        return found

    def _pick(self, ready: Sequence[Exit], session: ExitSession, host: str, now: float) -> Exit | None:
        if self._rotation_of(host, now) is Rotation.REQUEST:
            return choice.next_in_turn(ready, self._last, self._is_free)
        for exit in ready:
            if exit.name == session.exit:
                return exit
        others = [exit for exit in ready if exit.name != session.avoid] or ready
        exit = choice.rank(others, host, self._worker, self._period(host, now), session.generation)[0]
        session.exit = exit.name
        return exit

    def _is_free(self, exit: Exit) -> bool:
        return self._busy[exit.name] < (exit.connections or GATEWAY_CONNECTIONS)

    def _session(self, host: str, wish: ExitWish, now: float) -> ExitSession:
        """Return the session of a host; one that should end is replaced by the next."""
        key, sticky, rotation = (host, wish), self._settings.sticky, self._rotation_of(host, now)
        began = choice.period_start(host, now, sticky) if rotation is Rotation.TIMED else now
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = ExitSession("", began)
            if len(self._sessions) > MAX_HOSTS:
                self._sessions.popitem(last=False)
        elif choice.should_rotate(session, rotation=rotation, sticky=sticky, now=now):
            session = self._sessions[key] = choice.next_session(session, began)
        return session

    def _chosen(self, exit: Exit, host: str, wish: ExitWish, now: float) -> ChosenExit:
        kind = wish.kind or exit.kind
        if not exit.is_gateway:
            return ChosenExit(exit, exit.user, kind)
        rotating = self._rotation_of(host, now) is Rotation.REQUEST
        generation = self._sessions[host, wish].generation
        parts = (self._uses,) if rotating else (host, wish, self._period(host, now), generation)
        user = login(exit, wish, session=choice.session_id(self._worker, *parts))
        return ChosenExit(exit, user, kind, keep=not rotating)

    def _rotation_of(self, host: str, now: float) -> Rotation:
        change = self.refusing.get(host, now)
        return self._rotation if change is None else change.rotation

    def _period(self, host: str, now: float) -> int:
        if self._rotation_of(host, now) is not Rotation.TIMED:
            return 0
        return choice.period(host, now, self._settings.sticky)

    def _find_matching(self, wish: ExitWish) -> tuple[Exit, ...]:
        # A slice without the kind that is asked for must not stop the crawl.
        own = [exit for exit in self._own if matches(exit, wish)]
        found = own or [exit for exit in self.all if matches(exit, wish)]
        return tuple(sorted(found, key=lambda exit: exit.name))

    def _has_other(self, host: str, wish: ExitWish, tried: Sequence[str]) -> bool:
        return bool(self._ready(self._matching(wish), host, tried, self._clock())[0])

    def _keys(self, exit: str, host: str) -> tuple[str, str]:
        return exit_key(exit), host_key_of(exit, host)

    # --- connections -----------------------------------------------------------------------------

    def _limited(self, exit: Exit) -> Exit:
        if exit.is_gateway or exit.connections:
            return exit
        one = self._rotation is Rotation.REQUEST
        return replace(exit, connections=1 if one else self._settings.connections)

    def _limit(self, via: ChosenExit) -> int:
        if via.exit.connections:
            return via.exit.connections
        return self._settings.connections if via.keep else GATEWAY_CONNECTIONS

    def _busy_key(self, via: ChosenExit) -> str:
        """Return what the connections are counted by: at a gateway every session has an address."""
        return via.key if via.exit.is_gateway and via.keep else via.name

    def _release(self, via: ChosenExit) -> None:
        key = self._busy_key(via)
        self._busy[key] -= 1
        if not self._busy[key]:
            del self._busy[key]
        self._freed.set()

    # --- learning --------------------------------------------------------------------------------

    def _charge(self, via: ChosenExit, host: str, wish: ExitWish, failure: Failure) -> None:
        if _is_own_fault(failure):
            self.health.fail(exit_key(via.name), failure.reason, login=failure.status == LOGIN_REFUSED)
        else:
            self.health.fail(host_key_of(via.name, host), failure.reason)
            self._note_unreached(via, host)
        session = self._sessions.get((host, wish))
        if session is not None and session.exit == via.name:
            session.run += 1

    def _note(self, via: ChosenExit, host: str, answer: Answer, suspect: ChosenExit | None) -> None:
        """Record what is not the fault of its exit. If it got through, an exit that did not is at fault."""
        if isinstance(answer, Response):
            self.health.succeed(exit_key(via.name))
            self._unreached.pop(via.name, None)
            if suspect is not None and not _may_be_the_exit(answer):
                self.health.fail(exit_key(suspect.name), "it reached no target that another exit reached")
        elif isinstance(answer, Failure):
            if answer.failure_class is FailureClass.CONNECT:
                self._note_unreached(via, host)
            elif answer.failure_class in _AT_HOST:
                self.health.fail(host_key_of(via.name, host), answer.reason)

    def _note_unreached(self, via: ChosenExit, host: str) -> None:
        """Record that an exit has not reached a host; after several in a row, the exit is at fault."""
        self._unreached[via.name].add(host)
        if len(self._unreached[via.name]) >= HOSTS_IN_A_ROW:
            why = f"it reached none of {HOSTS_IN_A_ROW} hosts in a row"
            self.health.fail(exit_key(via.name), why, times=HOSTS_IN_A_ROW)
            del self._unreached[via.name]

    def _note_exhausted(self, exits: Sequence[Exit], host: str, wait: float, now: float) -> None:
        about = {"exits": len(exits), "next_in_s": round(wait, 1), "see": "shoal proxy list"}
        if not all(is_out(self.health.get(exit_key(exit.name)), now) for exit in exits):
            if host not in self._exhausted_hosts and len(self._exhausted_hosts) < MAX_HOSTS:
                self._exhausted_hosts.add(host)
                log.warning("exits.exhausted", extra={"host": host, **about})
        elif not self._exhausted:
            self._exhausted = True
            log.warning("exits.exhausted", extra=about)


def _is_own_fault(answer: Answer) -> bool:
    """Return whether an exit failed whatever the target: it was not reached, or refused the login."""
    return (
        isinstance(answer, Failure)
        and answer.failure_class is FailureClass.PROXY_ERROR
        and answer.status in (0, LOGIN_REFUSED)
    )


def _may_be_the_exit(answer: Answer) -> bool:
    """Return whether another exit could get a better answer."""
    if isinstance(answer, Response):
        return answer.by_proxy and answer.status in _PROXY_STATUSES
    return isinstance(answer, Failure) and answer.failure_class is FailureClass.CONNECT
