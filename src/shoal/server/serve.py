"""Run the server: listen, answer, and end when asked to."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import uvicorn

from shoal.model.api.roles import Role
from shoal.model.configuration.listen_address import address_of, is_loopback
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.server.access.gate import LOOPBACK_NAMES, REQUESTS, AccessGate
from shoal.server.access.rate_limit import Rate
from shoal.server.access.tokens import TokenBook, new_token
from shoal.server.http.app import App
from shoal.server.http.connections import MAX_HEAD_BYTES, ConnectionBook, protocol_for
from shoal.server.http.openapi import openapi_document
from shoal.server.http.static_files import StaticFiles
from shoal.server.routes.table import TABLE
from shoal.server.state.context import ApiServer
from shoal.server.state.events import SnapshotFeed
from shoal.services.alerts.scheduler import SchedulerAlerts
from shoal.services.inspect.snapshots import open_snapshots
from shoal.services.live.past import PastFigures
from shoal.services.live.sampler import LiveStore
from shoal.services.live.searches import TraceSearches
from shoal.services.remote.processes import CrawlProcesses, SubmissionRules
from shoal.services.schedules.serve import keep_scheduling, launch_rules
from shoal.services.scraping.scrape import Scraper
from shoal.services.store_address import public_address
from shoal.services.webhooks.deliver import WebhookLoop

log = logging.getLogger(__name__)

ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - they are compared
GRACE_S = 3.0  # for answers in progress when the server ends
# A request waits for the interpreter lock each time it is resumed while another thread computes. With the
# default of 5 ms, ten answers of the store add 50 ms to a request.
SWITCH_S = 0.001
BACKLOG = 1024  # connections that wait to be accepted


@dataclass(frozen=True, slots=True)
class ServePlan:
    settings: Settings
    listen: str = "127.0.0.1:8787"
    token_file: Path | None = None  # None: only the token that is made for this run
    hosts: tuple[str, ...] = ()  # names of this server besides those of the loopback interface
    spiders: Path | None = None  # the folder of spiders that may be submitted by name
    outputs: str = ""  # the folder for outputs of crawls; empty: the current one
    config: str = ""  # the settings file
    schedules: bool = True  # start the crawls of schedules when they are due
    rate_per_s: float = REQUESTS.per_s  # requests of one token; bursts of four seconds are allowed

    @property
    def submissions(self) -> SubmissionRules:
        return SubmissionRules(self.settings, self.spiders, self.outputs, self.config)


@dataclass(frozen=True, slots=True)
class Listening:
    """What an operator needs to know: printed, never logged."""

    url: str
    token: str = ""  # made for this run; empty: the tokens of a file are used


def open_tokens(plan: ServePlan, host: str) -> tuple[TokenBook, str]:
    """Return the tokens, and the one that was made for this run.

    Without a file of tokens one is made, but only where no other machine can reach the server.
    """
    book = TokenBook(plan.token_file)
    if len(book):
        return book, ""
    if not is_loopback(host):
        raise Misconfigured(
            f"--listen {plan.listen}: other machines can reach it, so it needs tokens: run"
            "  shoal token add NAME --role operate  first"
        )
    token = new_token()
    return TokenBook(plan.token_file, {token: Role.ADMIN}), token


async def serve(plan: ServePlan, stop: asyncio.Event, listening: Callable[[Listening], None]) -> None:
    """Answer until `stop` is set. `listening` is called once, when connections are accepted."""
    host, port = address_of(plan.listen, flag="--listen")
    tokens, token = open_tokens(plan, host)
    names = {*LOOPBACK_NAMES, *plan.hosts, host.lower()}
    rate = Rate(plan.rate_per_s, plan.rate_per_s * REQUESTS.burst / REQUESTS.per_s)
    gate = AccessGate(tokens, hosts=names, any_address=host in ANY_ADDRESS, requests=rate)
    dsn = plan.settings.store
    document = msgspec.json.encode(openapi_document(TABLE.routes))
    live, past, searches = LiveStore(dsn, plan.settings.alerts), PastFigures(dsn), TraceSearches(dsn)
    feed = SnapshotFeed(partial(open_snapshots, dsn, live.slow_hosts), address=public_address(dsn))
    sys.setswitchinterval(SWITCH_S)
    async with AsyncExitStack() as stack:
        opened = stack.enter_context(listening_socket(host, port))
        crawls = await stack.enter_async_context(CrawlProcesses.open(plan.submissions))
        scraper = await stack.enter_async_context(Scraper.open(plan.settings))
        webhooks = await stack.enter_async_context(WebhookLoop.open(plan.settings))
        state = ApiServer(plan.settings, gate, feed, document, crawls, scraper, live, past, searches)
        app = App(state, TABLE, StaticFiles.load())
        server = _Uvicorn(_config(app))
        url = _url(host, opened.getsockname()[1])
        async with live.running(), asyncio.TaskGroup() as group:
            answering = group.create_task(server.serve(sockets=[opened]), name="serve.answer")
            chores = [
                group.create_task(feed.run(), name="serve.events"),
                group.create_task(past.run(), name="serve.past"),
                group.create_task(searches.run(), name="serve.searches"),
                group.create_task(webhooks.run(), name="serve.webhooks"),
            ]
            if plan.schedules:
                rules = launch_rules(plan.settings, config=plan.submissions.config, spiders=plan.spiders)
                watch = await stack.enter_async_context(SchedulerAlerts.open(plan.settings))
                scheduling = keep_scheduling(dsn, rules, watch=watch)
                chores.append(group.create_task(scheduling, name="serve.schedules"))
            listening(Listening(f"{url}/#token={token}" if token else f"{url}/", token))
            stopping = group.create_task(stop.wait(), name="serve.stop")
            await asyncio.wait((answering, stopping), return_when=asyncio.FIRST_COMPLETED)
            server.should_exit = True
            feed.close()
            live.close()
            await answering
            for chore in chores:
                chore.cancel()
            stopping.cancel()


def _config(app: App) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its warnings are about bad requests
    return uvicorn.Config(
        app,
        http=protocol_for(ConnectionBook()),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=int(GRACE_S),
        backlog=BACKLOG,
    )


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield


@contextmanager
def listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
        except OSError as error:
            raise Misconfigured(f"--listen {host}:{port}: {error.strerror or error}") from None
        opened.listen(BACKLOG)  # before the address is printed: a client may connect at once, and waits
        opened.setblocking(False)
        yield opened
    finally:
        opened.close()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
