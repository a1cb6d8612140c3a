"""The exits of this process: chooses one for each request, and learns from what happens.

Faults of an exit are not faults of a URL (`model/exits/faults.py`): a request that meets one goes to another
exit at once, and if none is left it waits in the frontier without losing an attempt. Where an exit says that
it cannot reach the target, a second exit is asked; if neither does, the URL waits until one of them has
brought another answer, and only then it is the URL that is charged. When every exit rests, nothing is sent,
nothing is given up, and the log says so once.

An exit may also rest at one host: because the host turns it away, or because the exit refuses the host. If
every exit does, its requests wait at first (`PATIENT_RESTS`). After that they are sent, and end as they would
without exits: a host that is gone must not keep a crawl from finishing.

Health is shared through the store. Every process merges what it has seen about once a second, and takes
over what others have merged. There is no task for that: the request that finds it due does it. Between two
merges a process decides by what it has seen itself.
"""

import asyncio
import logging
import math
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import msgspec

from shoal.fetch.exits.claims import ExitClaims
from shoal.fetch.exits.refusing_hosts import RefusingHosts
from shoal.fetch.exits.shared_health import SharedHealth, exit_key, host_key_of
from shoal.fetch.http.exit_connections import ExitConnections
from shoal.model.adaptive_delay import Signal, is_block
from shoal.model.exits import choice
from shoal.model.exits.choice import ExitSession, Rotation
from shoal.model.exits.exit import ChosenExit, Exit, ExitWish, login, matches
from shoal.model.exits.faults import FAULTS, HOSTS_IN_A_ROW, Fault, Party, charge_doubt, fault_of
from shoal.model.exits.health import BY_HAND, UNHEALTHY, is_out, needs_probe, ready_at
from shoal.model.exits.refusal import OFF, ROTATE
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import OTHER_EXIT_S
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings

log = logging.getLogger(__name__)

MAX_EXITS_PER_ATTEMPT = 3
BUSY_WAIT_S = 5.0  # for a connection of a busy exit; then the request goes back to the frontier
RETRY_EARLY_S = 60.0  # after its last failure, if every exit rests because it fails
OUT_WAIT_S = 30.0  # longest wait in the frontier while all exits rest
MIN_WAIT_S = 0.5
UNCLAIMED_WAIT_S = 2.0  # while other workers have all the exits that a request may use
MAX_HOSTS = 20_000  # whose sessions are remembered
MAX_REFUSED = 20_000  # URLs whose exits are remembered that were turned away with them
MAX_DOUBTS = 20_000  # URLs that are remembered while it is not known whether they or an exit is at fault
NEVER_WORKED_S = 60.0  # for which requests wait if no exit has ever brought an answer
PATIENT_RESTS = 2  # in a row, that requests wait for where every exit rests
GATEWAY_CONNECTIONS = 100  # where every request has another address
# The connection was there, and then the exit or the target failed: counted at this host alone.
_BROKEN = (FailureClass.TIMEOUT, FailureClass.TRUNCATED, FailureClass.TLS, FailureClass.PROTOCOL)
_PROXY_STATUSES = (502, 504)

Answer = Response | Failure | NotSent
Call = Callable[[ChosenExit], Awaitable[Answer]]


class _Doubt(msgspec.Struct):
    """A URL without an answer, while it is not known whether the exits or the target is at fault."""

    since: float
    at: int  # the number of the latest such event of the pool


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
        divided: bool = False,
    ) -> None:
        """`divided`: the workers of the store divide the list, and this one uses what it has claimed."""
        self._rotation = Rotation(settings.rotation)
        self._settings = settings
        self._worker = worker
        self._clock = clock
        self.all = tuple(self._limited(exit) for exit in exits)
        self.health = health or SharedHealth(self.all, cool_off=settings.cool_off, clock=clock)
        self.refusing = RefusingHosts(rule=settings.when_refused, rotation=self._rotation)
        self.health.also.append(self.refusing)
        self.connections = ExitConnections()
        self._claims: ExitClaims | None = None
        if divided:
            self._claims = ExitClaims(
                worker, self.all, busy=self._used, changed=self._given_back, clock=clock
            )
            self.health.also.append(self._claims)
        self._busy: Counter[str] = Counter()
        self._last = ""  # the exit that was used last
        self._uses = 0
        self._sessions: OrderedDict[tuple[str, ExitWish], ExitSession] = OrderedDict()
        self._events = 0  # counts faults in doubt
        # By exit: the time of its last answer, and the number of such faults before the request for it.
        self._answered: dict[str, tuple[int, float]] = {}
        self._known_hosts: OrderedDict[str, None] = OrderedDict()  # that have answered through an exit
        self._charged_hosts: OrderedDict[str, None] = (
            OrderedDict()
        )  # that were at fault at their last request
        self._doubts: OrderedDict[str, _Doubt] = OrderedDict()  # by URL
        self._refused: OrderedDict[str, tuple[str, ...]] = (
            OrderedDict()
        )  # by URL: exits it was blocked through
        self._down_since: float | None = None  # the first fault of an exit since any of them has worked
        self._down_why = ""
        self._missed_at = 0.0  # the last time that a request got no answer through an exit since then
        self._waited_s = 0.0  # between the two, while requests wanted an exit
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

    @property
    def how_used(self) -> str:
        """Return in words how many exits there are and how the list is used."""
        names = f"{len(self.all)} exits" if len(self.all) > 1 else f"the exit {self.all[0].name}"
        if len(self.all) == 1 and not self.all[0].is_gateway and self._rotation is not Rotation.REQUEST:
            return names
        return f"{names}: {choice.describe(self._rotation, self._settings.sticky)}"

    def next_kind(self, wish: ExitWish) -> str:
        """Return the kind of exits for what is refused with this wish; empty: there is no other."""
        kind = self._settings.when_refused
        if kind in (ROTATE, OFF, wish.kind) or not self.can_serve(ExitWish(kind, wish.country)):
            return ""
        return kind

    @property
    def has_worked(self) -> bool:
        """Whether any exit has brought an answer, here or in another process of the store."""
        return bool(self._answered) or any(
            record.last_success for exit in self.all if (record := self.health.get(exit_key(exit.name)))
        )

    def given_up(self) -> str:
        """Return why requests wait no longer for an exit that works; empty: they do.

        Only time in which requests wanted an exit counts: a paused crawl, a host that rests and a computer
        that sleeps say nothing of the exits.
        """
        now = self._clock()
        if self._down_since is None or not 0 <= (since := now - self._missed_at) <= OUT_WAIT_S:
            return ""
        used_here = self._claims.usable(now) if self._claims is not None else None
        for exit in self.all:
            record = self.health.get(exit_key(exit.name))
            if record is None or not record.rest_until or record.cause == BY_HAND:
                return ""
            if record.last_success > self._down_since:  # for another process of the store
                self._down_since = None
                return ""
            if not is_out(record, now) and (used_here is None or exit.name in used_here):
                return ""  # to be probed
        wait = self._settings.patience
        waited = self._waited_s + since
        if waited < (wait if self.has_worked else min(wait, NEVER_WORKED_S)):
            return ""
        worked = "works any longer" if self.has_worked else "has worked so far"
        return f"none of {len(self.all)} exits {worked}, for {waited:.0f} s: {self._down_why}"

    async def leave(self) -> None:
        """Store what was seen, and give the exits of this worker to the others."""
        await self.health.sync(force=True)
        if self._claims is not None and self.health.records is not None:
            await self._claims.leave(self.health.records)

    def can_serve(self, wish: ExitWish) -> bool:
        return any(matches(exit, wish) for exit in self.all)

    async def send(
        self, call: Call, *, host: str, wish: ExitWish, url: str = ""
    ) -> tuple[Answer, ChosenExit | None]:
        """Make a request through an exit, or through others if that is at fault; return what came, by which.

        Return `NotSent` if no exit is free. The caller reports a response with `report`.
        """
        await self.health.sync()
        tried: list[str] = []
        suspect: ChosenExit | None = None
        last: Answer | None = None
        url, began = url or host, self._events
        proven = self._proven_since(url) if self._doubts else ()
        while True:
            via = await self._acquire(host, wish, tried, url)
            if via is None:
                reason = f"no exit is configured with {wish}: see shoal proxy list"
                return Failure(FailureClass.REFUSED, reason), None
            if isinstance(via, _Wait):
                self._note_missed()
                if last is None:
                    return NotSent(via.seconds), suspect
                if suspect is not None:
                    return self._settle_doubt(url, host, [suspect], last, proven), suspect
                return (NotSent(OTHER_EXIT_S) if _charged(last) is Party.EXIT else last), suspect
            try:
                answer = await call(via)
            finally:
                self._release(via)
            tried.append(via.name)
            if isinstance(answer, NotSent):
                self.health.end_probes(self._keys(via.name, host))
                return answer, via
            party = _charged(answer)
            if isinstance(answer, Failure) and party in (Party.EXIT, Party.AT_HOST):
                self._charge(via, host, wish, answer)
                if suspect is None:  # what that has met is still to be settled
                    last = answer
                if len(tried) >= MAX_EXITS_PER_ATTEMPT:
                    if suspect is not None and last is not None:
                        return self._settle_doubt(url, host, [suspect], last, proven), suspect
                    return (NotSent(OTHER_EXIT_S) if party is Party.EXIT else answer), via
            elif party is Party.DOUBT:
                another = _is_unreached(answer) and suspect is None
                if another and self._has_other(host, wish, tried):
                    suspect, last = via, answer
                    continue
                doubted = [via] if suspect is None else [suspect, via]
                return self._settle_doubt(url, host, doubted, answer, proven), via
            else:
                self._note(via, host, answer, suspect)
                if isinstance(answer, Response) or answer.status:
                    self._note_answer(via, host, url, began)
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

    def report(self, via: ChosenExit, host: str, wish: ExitWish, signal: Signal, *, url: str = "") -> None:
        """Record how the host has treated a response's exit; a `url` that was blocked goes to another one."""
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
            if url:
                self._refused[url] = (*self._refused.get(url, ()), via.name)
                if len(self._refused) > MAX_REFUSED:
                    self._refused.popitem(last=False)
        else:
            if self._refused:
                self._refused.pop(url, None)
            self.health.succeed(host_key_of(via.name, host), only_known=True)

    # --- choosing --------------------------------------------------------------------------------

    async def _acquire(
        self, host: str, wish: ExitWish, tried: Sequence[str], url: str
    ) -> ChosenExit | _Wait | None:
        deadline = time.monotonic() + BUSY_WAIT_S
        while True:
            found = self._choose(host, wish, tried, url)
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

    def _choose(self, host: str, wish: ExitWish, tried: Sequence[str], url: str) -> ChosenExit | _Wait | None:
        now = self._clock()
        if not (matching := self._usable(wish, now)):
            return _Wait(UNCLAIMED_WAIT_S) if self.can_serve(wish) else None
        ready, wait = self._ready(matching, host, tried, now)
        if not ready and not tried:
            ready = self._resting_at_host(matching, host, now)
        if not ready:
            if not tried:
                self._note_exhausted(matching, host, wait, now)
            return _Wait(wait)
        self._exhausted = False
        self._exhausted_hosts.discard(host)
        exit = self._pick(ready, self._session(host, wish, now), host, now, url)
        if exit is None:
            return _Wait(MIN_WAIT_S, busy=True)
        via = self._chosen(exit, host, wish, now)
        if self._busy[self._busy_key(via)] >= self._limit(via):
            return _Wait(MIN_WAIT_S, busy=True)
        for key in self._keys(exit.name, host):
            record = self.health.get(key)
            if needs_probe(record, now) or (key == exit_key(exit.name) and is_out(record, now)):
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
        if not ready and not tried and (one := self._retried_early(exits, now)) is not None:
            return [one], MIN_WAIT_S
        return ready, max(min(waits), MIN_WAIT_S)

    def _retried_early(self, exits: Sequence[Exit], now: float) -> Exit | None:
        """Return the exit to try if all rest because they fail: there is nothing to lose, and long rests
        would outlast the return of the first."""
        oldest: tuple[float, Exit] | None = None
        for exit in exits:
            record = self.health.get(exit_key(exit.name))
            if record is None or record.rest_until <= now:
                return None  # it rests at this host alone
            if record.cause != UNHEALTHY or record.probe_until > now:
                continue
            if oldest is None or record.last_failure < oldest[0]:
                oldest = record.last_failure, exit
        return None if oldest is None or now - oldest[0] < RETRY_EARLY_S else oldest[1]

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

    def _pick(
        self, ready: Sequence[Exit], session: ExitSession, host: str, now: float, url: str
    ) -> Exit | None:
        rotation = self._rotation_of(host, now)
        # A sticky host leaves an exit that it was blocked through. Where each request has the next exit, the
        # next attempt at the same URL could have the same one again, and every attempt at it.
        if rotation in (Rotation.REQUEST, Rotation.TURN) and (refused := self._refused.get(url)):
            ready = [exit for exit in ready if exit.name not in refused] or ready
        if rotation is Rotation.REQUEST:
            return choice.next_in_turn(ready, self._last, self._is_free)
        if rotation is Rotation.TURN:
            # Each host takes its turns: with one turn for all, two hosts might see half of the list each.
            taken = choice.next_in_turn(ready, session.exit or self._last, self._is_free)
            session.exit = session.exit if taken is None else taken.name
            return taken
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
        periodic = rotation in (Rotation.TIMED, Rotation.TURN)
        began = choice.period_start(host, now, sticky) if periodic else now
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
        rotating = self._rotation_of(host, now) is Rotation.REQUEST
        if not exit.is_gateway:
            # A gateway may be one without saying so: then another connection is another address.
            return ChosenExit(exit, exit.user, kind, keep=not rotating)
        generation = self._sessions[host, wish].generation
        parts = (self._uses,) if rotating else (host, wish, self._period(host, now), generation)
        user = login(exit, wish, session=choice.session_id(self._worker, *parts))
        return ChosenExit(exit, user, kind, keep=not rotating)

    def _rotation_of(self, host: str, now: float) -> Rotation:
        change = self.refusing.get(host, now)
        return self._rotation if change is None else change.rotation

    def _period(self, host: str, now: float) -> int:
        if self._rotation_of(host, now) not in (Rotation.TIMED, Rotation.TURN):
            return 0
        return choice.period(host, now, self._settings.sticky)

    def _usable(self, wish: ExitWish, now: float) -> tuple[Exit, ...]:
        return self._matching(wish, None if self._claims is None else self._claims.usable(now))

    def _find_matching(self, wish: ExitWish, claimed: frozenset[str] | None) -> tuple[Exit, ...]:
        found = [
            exit for exit in self.all if matches(exit, wish) and (claimed is None or exit.name in claimed)
        ]
        return tuple(sorted(found, key=lambda exit: exit.name))

    def _has_other(self, host: str, wish: ExitWish, tried: Sequence[str]) -> bool:
        now = self._clock()
        return bool(self._ready(self._usable(wish, now), host, tried, now)[0])

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

    def _used(self) -> set[str]:
        """Return the exits that requests use; no name has a space."""
        return {key.partition(" ")[0] for key in self._busy}

    def _given_back(self, exits: Collection[str]) -> None:
        for exit in exits:
            self.connections.close_idle(exit)

    def _release(self, via: ChosenExit) -> None:
        key = self._busy_key(via)
        self._busy[key] -= 1
        if not self._busy[key]:
            del self._busy[key]
        self._freed.set()

    # --- learning --------------------------------------------------------------------------------

    def _charge(self, via: ChosenExit, host: str, wish: ExitWish, failure: Failure) -> None:
        fault = fault_of(failure)
        if FAULTS[fault].charged is Party.EXIT:
            self._fail_exit(via.name, failure.reason, login=fault is Fault.LOGIN)
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
            if suspect is not None:
                self.health.fail(exit_key(suspect.name), "it reached no target that another exit reached")
        elif isinstance(answer, Failure) and answer.failure_class in _BROKEN:
            self.health.fail(host_key_of(via.name, host), answer.reason)

    def _note_answer(self, via: ChosenExit, host: str, url: str, began: int) -> None:
        """Record that a target has answered through an exit, whatever the answer."""
        before, _ = self._answered.get(via.name, (-1, 0.0))
        self._answered[via.name] = max(began, before), self._clock()
        self._down_since = None
        if host not in self._known_hosts:
            self._known_hosts[host] = None
            if len(self._known_hosts) > MAX_HOSTS:
                self._known_hosts.popitem(last=False)
        if self._charged_hosts:
            self._charged_hosts.pop(host, None)
        if self._doubts:
            self._doubts.pop(url, None)

    def _proven_since(self, url: str) -> Collection[str]:
        """Return the exits that work, as was seen between the last fault of a URL and now.

        An answer counts if its request began after that fault: the exit may have failed in between.
        """
        if (doubt := self._doubts.get(url)) is None:
            return ()
        return {exit for exit, (began, _) in self._answered.items() if began >= doubt.at}

    def _settle_doubt(
        self, url: str, host: str, tried: Sequence[ChosenExit], answer: Answer, proven: Collection[str]
    ) -> Answer:
        """Return what a request gets that no exit has brought an answer for: its failure, or to wait."""
        now = self._clock()
        known = self._doubts.get(url)
        doubt = known or _Doubt(now, self._events)
        last = max(self._answered.get(via.name, (-1, -math.inf))[1] for via in tried)
        for via in tried:
            self._unreached[via.name].add(host)
        party = charge_doubt(
            answered_since=any(via.name in proven for via in tried),
            silent_s=now - last,
            host_is_known=host in self._known_hosts,
            hosts=min(len(self._unreached[via.name]) for via in tried),
            waited_s=now - doubt.since,
            host_was_charged=host in self._charged_hosts,
        )
        if party is not Party.EXIT:  # others may probe these exits
            self.health.end_probes([key for via in tried for key in self._keys(via.name, host)])
        if party is Party.URL:
            self._charged_hosts[host] = None
            if len(self._charged_hosts) > MAX_HOSTS:
                self._charged_hosts.popitem(last=False)
            self._note_target(tried, host, answer)
            return answer
        self._events += 1
        doubt.at = self._events
        self._doubts[url] = doubt
        if len(self._doubts) > MAX_DOUBTS:
            self._doubts.popitem(last=False)
        if party is Party.EXIT:
            why = answer.reason if isinstance(answer, Failure) else "it answers in place of the target"
            for via in tried:
                self._fail_exit(via.name, why)
        return NotSent(OTHER_EXIT_S)

    def _note_target(self, tried: Sequence[ChosenExit], host: str, answer: Answer) -> None:
        """Record a fault of a target: an exit that meets it at several hosts in a row is at fault, too."""
        for via in tried:
            if isinstance(answer, Failure) and answer.failure_class in _BROKEN:
                self.health.fail(host_key_of(via.name, host), answer.reason)
            self._note_unreached(via, host)

    def _fail_exit(self, exit: str, why: str, *, login: bool = False) -> None:
        self._note_missed(f"{exit}: {why.removeprefix('exit: ')}")
        self.health.fail(exit_key(exit), why, login=login)

    def _note_missed(self, why: str = "") -> None:
        """Record that a request got no answer: because an exit is at fault (`why`), or all of them rest."""
        now = self._clock()
        if self._down_since is not None:
            # Waiting requests come back within this time; longer than that, none wanted an exit.
            self._waited_s += min(max(now - self._missed_at, 0.0), OUT_WAIT_S)
        elif why:
            self._down_since, self._waited_s = now, 0.0
        self._missed_at, self._down_why = now, why or self._down_why

    def _note_unreached(self, via: ChosenExit, host: str) -> None:
        """Record that an exit has not reached a host; after several in a row, the exit is at fault."""
        self._unreached[via.name].add(host)
        if len(self._unreached[via.name]) >= HOSTS_IN_A_ROW:
            why = f"it reached none of {HOSTS_IN_A_ROW} hosts in a row"
            self._note_missed(f"{via.name}: {why}")
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


def _charged(answer: Answer) -> Party:
    """Return who is charged for an answer, by the table of faults."""
    if isinstance(answer, Failure):
        return FAULTS[fault_of(answer)].charged
    return Party.DOUBT if _is_unreached(answer) else Party.URL


def _is_unreached(answer: Answer) -> bool:
    """Return whether an exit says that it has not reached the target: another one may."""
    if isinstance(answer, Response):
        return answer.by_proxy and answer.status in _PROXY_STATUSES
    return isinstance(answer, Failure) and fault_of(answer) is Fault.UNREACHED
