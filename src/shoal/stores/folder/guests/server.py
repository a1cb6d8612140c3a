"""The owner's side: carries out the calls of guests on the frontier that this process owns."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import assert_never

import msgspec

from shoal.fetch.gate import SendGate
from shoal.frontier.results import Unparsed
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite.frontier import PAUSED_S
from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.pace import TurnAnswer, TurnKind, TurnRequest
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.guests import messages
from shoal.stores.folder.guests.messages import NO_REPLY, CallReply, NumberedCall

log = logging.getLogger(__name__)

MAX_CALLS = 256  # of one guest at once; more wait in the socket
CLOSE_S = 2.0  # to unload crawls, which takes milliseconds
LEAVE_S = 15.0  # for guests to settle what they hold, when the owner ends


class Guests:
    """The guests of the process that owns a folder, and the crawls that it and they run."""

    def __init__(self, frontier: SqliteFrontier, gate: SendGate, owner: str) -> None:
        self._frontier = frontier
        self._gate = gate
        self._owner = owner
        self._running: dict[str, str] = {}  # crawl -> the process that runs it
        self._present: set[GuestSession] = set()
        self._left = asyncio.Event()  # set whenever a guest has left
        self._joined = 0
        self._closing = False

    @property
    def running(self) -> dict[str, str]:
        """Return the crawls of the folder that run now, each with its process."""
        return dict(self._running)

    def claim(self, crawl: str, process: str = "") -> None:
        """Record which process runs a crawl; raise `StoreBusy` if another one does."""
        if (other := self._running.get(crawl)) is not None:
            raise StoreBusy(
                f"crawl {crawl} is being run by {other}: wait until that ends, or name another crawl with"
                " --crawl NAME"
            )
        self._running[crawl] = process or self._owner

    def release(self, crawl: str) -> None:
        self._running.pop(crawl, None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: str) -> None:
        """Carry out the calls of a guest until it leaves, then unload its crawls."""
        self._joined += 1
        guest = GuestSession(self._frontier, self._gate, self, writer, process, number=self._joined)
        self._present.add(guest)
        if self._closing:
            guest.send(messages.LEAVE)
        log.info("guest.joined", extra={"guest": process})
        try:
            await guest.run(reader)
        finally:
            self._present.discard(guest)
            self._left.set()
            log.info("guest.left", extra={"guest": process})

    async def dismiss(self, hurry: asyncio.Event) -> None:
        """Ask all guests to leave, and wait until they have; not longer than `LEAVE_S`, nor once `hurry`."""
        self._closing = True
        if not self._present:
            return
        about = {"guests": ", ".join(sorted(guest.process for guest in self._present))}
        logging.getLogger("shoal.progress").info("store.handed_over", extra=about)
        for guest in self._present:
            guest.send(messages.LEAVE)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S), asyncio.TaskGroup() as group:
                gone = group.create_task(self._wait_until_gone(), name="guests.gone")
                hurried = group.create_task(hurry.wait(), name="guests.hurry")
                await asyncio.wait((gone, hurried), return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                hurried.cancel()

    async def _wait_until_gone(self) -> None:
        while self._present:
            self._left.clear()
            await self._left.wait()

    async def close(self) -> None:
        """Close the connections of the guests that are left, and unload their crawls."""
        for guest in self._present:
            guest.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._wait_until_gone()


class GuestSession:
    """One guest: its connection, and the crawls that it runs."""

    def __init__(
        self,
        frontier: SqliteFrontier,
        gate: SendGate,
        guests: Guests,
        writer: asyncio.StreamWriter,
        process: str,
        *,
        number: int,
    ) -> None:
        self.process = process
        self._taker = f"{process} {number}"  # a process may join several times at once
        self._frontier = frontier
        self._gate = gate
        self._guests = guests
        self._writer = writer
        self._claimed: set[str] = set()
        self._opened: set[str] = set()
        self._unparsed: dict[str, AsyncIterator[Unparsed]] = {}
        self._room = asyncio.Semaphore(MAX_CALLS)

    def send(self, reply: CallReply) -> None:
        """Send a reply, unless the guest has gone."""
        with suppress(ConnectionError):
            messages.send(self._writer, reply)

    def close(self) -> None:
        self._writer.close()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Answer calls until the connection ends."""
        calls: set[asyncio.Task[None]] = set()
        try:
            async with asyncio.TaskGroup() as group:
                while (body := await messages.read_frame(reader)) is not None:
                    call = messages.decode_call(body)
                    await self._room.acquire()
                    # Tasks start in order, and a change of the frontier awaits nothing: calls that are sent
                    # one after the other take effect one after the other.
                    task = group.create_task(self._answer(call), name="guest.call")
                    calls.add(task)
                    task.add_done_callback(calls.discard)
                for task in calls:
                    task.cancel()
        except* msgspec.MsgspecError as error:
            log.warning("guest.unreadable", extra={"guest": self.process, "why": str(error.exceptions[0])})
        finally:
            self._writer.close()
            await self._unload()

    async def _unload(self) -> None:
        for crawl in self._opened:
            try:
                await self._frontier.crawls.close(crawl)
            except ShoalError as error:  # of the store: the owner meets it as well
                log.error("guest.not_unloaded", extra={"crawl": crawl, "why": str(error)})
        for crawl in self._claimed:
            self._guests.release(crawl)

    async def _answer(self, numbered: NumberedCall) -> None:
        try:
            try:
                result = await self._carry_out(numbered.call)
                reply = CallReply(numbered.number, messages.encode_result(result))
            except ShoalError as error:
                reply = CallReply(numbered.number, error=str(error), family=messages.family_of(error))
            except Exception as error:  # a bug must not end the crawl of the owner
                log.exception("guest.call_failed", extra={"guest": self.process})
                reply = CallReply(numbered.number, error=f"the owner of the store failed: {error!r}")
            if numbered.number != NO_REPLY:
                self.send(reply)
                with suppress(OSError, RuntimeError):  # the guest has gone
                    await self._writer.drain()
        finally:
            self._room.release()

    async def _carry_out(self, call: messages.Call) -> object:
        frontier = self._frontier
        match call:
            case messages.ClaimCall(crawl):
                self._guests.claim(crawl, self.process)
                self._claimed.add(crawl)
                return None
            case messages.OpenCrawlCall():
                return await self._open(call)
            case messages.DeleteCrawlCall(crawl, checkpoints, entirely, keep):
                return await frontier.crawls.delete(
                    crawl, checkpoints=checkpoints, entirely=entirely, keep=keep
                )
            case messages.SetPausedCall(crawl, paused):
                await (frontier.crawls.pause if paused else frontier.crawls.resume)(crawl)
                return None
            case messages.SetValueCall(crawl, key, value):
                await frontier.crawls.set_value(crawl, key, value)
                return None
            case messages.AddLinksCall(crawl, links):
                return await frontier.add(crawl, links)
            case messages.ReadmitLinksCall(crawl, links, rule):
                return await frontier.readmit(crawl, links, rule)
            case messages.TakeLeasesCall(holder, limit, ttl, pools, crawls):
                chosen = sorted(self._opened) if crawls is None else crawls
                return await frontier.lease(holder=holder, limit=limit, ttl=ttl, pools=pools, crawls=chosen)
            case messages.FindHeldCall(leases):
                return await frontier.held(leases)
            case messages.KeepLeasesCall(leases):
                frontier.keep_until_settled(leases)
                return None
            case messages.MarkLandedCall(leases):
                frontier.mark_landed(leases)
                return None
            case messages.ExtendLeasesCall(leases, ttl):
                return await frontier.extend(leases, ttl)
            case messages.ReclaimLeasesCall():
                return await frontier.reclaim()
            case messages.CommitWorkCall():
                self._refuse_others(call)
                return await frontier.commit(
                    call.settlements, call.acknowledgements, call.checkpoints, call.crawl_state
                )
            case messages.NextUnparsedCall(crawl):
                pages = self._unparsed.setdefault(crawl, frontier.parsing(crawl))
                if (page := await anext(pages, None)) is None:
                    del self._unparsed[crawl]
                return page
            case messages.GetHostCall(host):
                return await frontier.hosts.get(host)
            case messages.SetHostCall():
                return await self._set_host(call)
            case messages.ClearHostCall(host):
                return await frontier.hosts.clear(host)
            case messages.ListHostsCall():
                return await frontier.hosts.of_crawls(self._opened)
            case messages.SetRobotsCall(host, expires, status, body):
                await frontier.hosts.set_robots(host, expires=expires, status=status, body=body)
                return None
            case messages.ReplayLettersCall(crawl, classes, host, fingerprints, limit):
                return await frontier.dead_letters.replay(
                    crawl, classes=classes, host=host, fingerprints=fingerprints, limit=limit
                )
            case messages.PurgeLettersCall(crawl, classes, host, fingerprints, limit):
                return await frontier.dead_letters.purge(
                    crawl, classes=classes, host=host, fingerprints=fingerprints, limit=limit
                )
            case messages.TakeTurnCall(asked):
                return self._turn(asked)
            case messages.IsPausedCall(crawl, host):
                return frontier.held_for(crawl, host) > 0
        assert_never(call)

    def _refuse_others(self, work: messages.CommitWorkCall) -> None:
        """Raise if a commit concerns a crawl that another process runs: nothing of it may be applied."""
        crawls = {settlement.lease.crawl for settlement in work.settlements}
        crawls.update(acknowledgement.crawl for acknowledgement in work.acknowledgements)
        for crawl in crawls.union(work.crawl_state) - self._opened:
            if self._frontier.crawls.is_open(crawl):
                raise Misconfigured(f"crawl {crawl} is open in another process")

    async def _open(self, call: messages.OpenCrawlCall) -> object:
        if call.crawl not in self._opened and self._frontier.crawls.is_open(call.crawl):
            raise StoreBusy(f"crawl {call.crawl} is open in another process")
        opened = await self._frontier.crawls.open(
            call.crawl,
            pace=call.pace,
            max_crashes=call.max_crashes,
            slowdown=call.slowdown,
            host_budget=call.host_budget,
            hosts=call.hosts,
            state=call.state,
        )
        self._frontier.crawls.mark_guest(call.crawl)
        self._opened.add(call.crawl)
        return opened

    async def _set_host(self, call: messages.SetHostCall) -> object:
        return await self._frontier.hosts.set(
            call.host,
            interval=call.interval,
            burst=call.burst,
            concurrency=call.concurrency,
            crawl_delay=call.crawl_delay,
            rest_until=call.rest_until,
            paused=call.paused,
        )

    def _turn(self, asked: TurnRequest) -> TurnAnswer:
        if (held := self._frontier.held_for(asked.crawl, asked.host)) > 0:
            # Asked again after that, and then perhaps still paused: the request returns to the frontier.
            paused = held == PAUSED_S
            return TurnAnswer(TurnKind.PAUSED if paused else TurnKind.WAIT, held, 0.0)
        return self._gate.grant(asked, self._taker)
