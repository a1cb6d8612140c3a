"""`shoal worker`: serve the crawls of a fleet."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Quiet, Verbose, examples, option

if TYPE_CHECKING:
    from shoal.engine.snapshot import CrawlStats
    from shoal.redis_client import Dsn
    from shoal.worker.worker import WorkerPlan

EXAMPLES = examples(
    ("Serve every crawl of the store, until Ctrl-C", "shoal worker --store redis://queue.example"),
    ("Until nothing is left to do", "shoal worker --store redis://queue.example --until-done"),
    ("With figures for Prometheus", "shoal worker --store redis://queue.example --metrics 127.0.0.1:9464"),
    ("Without the password on the command line", "SHOAL_STORE=redis://:secret@queue.example shoal worker"),
)

Store = Annotated[str | None, option("--store", "DSN", "The fleet's store.", default="SHOAL_STORE")]
Roles = Annotated[
    str | None,
    option("--roles", "LIST", "What to do: fetch, parse, sink, with commas between.", default="all"),
]
Concurrency = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Requests at once, over all crawls. [dim]Default: 64.[/dim]",
        show_default=False,
    ),
]
Metrics = Annotated[
    str | None,
    option("--metrics", "HOST:PORT", "Tell Prometheus how it goes, here; and /readyz, /healthz."),
]
Pools = Annotated[
    str | None,
    option("--pools", "LIST", "Pools whose requests to take, comma-separated.", default="http"),
]
UntilDone = Annotated[bool, option("--until-done", "", "End when no crawl has work left.")]


def command(
    *,
    store: Store = None,
    roles: Roles = None,
    pools: Pools = None,
    concurrency: Concurrency = 64,
    until_done: UntilDone = False,
    metrics: Metrics = None,
    config: Config = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> int:
    """Serve every crawl of a fleet's store, next to any number of other workers.

    The first Ctrl-C finishes what is in hand, the second ends at once. What a killed worker had is taken over
    by others.
    """
    from shoal.cli.input.settings_loader import load_settings
    from shoal.redis_client import parse

    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    dsn = parse(settings.store)
    wanted = _roles(roles)

    import uvloop

    from shoal.cli.process.log_format import start_logging
    from shoal.worker.worker import WorkerPlan

    silent = quiet or json
    start_logging(verbose=verbose if silent else verbose + 1, quiet=silent)
    # A page that is only parsed takes less than half of what a request may take.
    deadline = settings.crawl.lease / 2
    plan = WorkerPlan(
        roles=wanted,
        pools=_pools(pools),
        concurrency=concurrency,
        deadline=deadline,
        until_done=until_done,
    )
    return uvloop.run(_work(dsn, plan, metrics, json=json))


def _roles(text: str | None) -> frozenset[str]:
    from shoal.model.errors import Misconfigured
    from shoal.worker.worker import ROLES

    wanted = frozenset(ROLES if text is None else (role.strip() for role in text.split(",")))
    if unknown := wanted - set(ROLES):
        raise Misconfigured(f"--roles: there is no role {min(unknown)!r}; known: {', '.join(ROLES)}")
    return wanted


def _pools(text: str | None) -> tuple[str, ...]:
    from shoal.model.errors import Misconfigured

    chosen = tuple(dict.fromkeys(pool.strip() for pool in (text or "http").split(",")))
    if "" in chosen:
        raise Misconfigured(f"--pools {text!r}: name pools, comma-separated, such as http,browser")
    return chosen


async def _work(dsn: "Dsn", plan: "WorkerPlan", metrics: str | None, *, json: bool) -> int:
    import time
    from contextlib import AsyncExitStack
    from functools import partial

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.signals import stopped_by_signals
    from shoal.cli.views.output import put_json, tell
    from shoal.cli.views.summary import again
    from shoal.engine.plan import Stop
    from shoal.redis_client import RedisClient
    from shoal.worker.worker import Worker

    stop, began = Stop(), time.monotonic()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(RedisClient.open(dsn))
        worker = Worker(store, plan, stop)
        if metrics is not None:
            from shoal.services.inspect.fleet_status import look_at
            from shoal.worker.http_endpoint import Endpoint

            await stack.enter_async_context(
                Endpoint.listening(metrics, worker.stats, partial(look_at, store))
            )
        with stopped_by_signals(stop, tell, resume=again(sys.argv[1:])):
            await worker.run()
    code = ExitCode.INTERRUPTED if plan.until_done and stop.drain.is_set() else ExitCode.FINISHED
    if json:
        put_json(
            {
                "worker": worker.id,
                "ending": "interrupted" if stop.drain.is_set() else "finished",
                "exit_code": int(code),
                "elapsed_s": round(time.monotonic() - began, 3),
                "crawls": {name: _json(done) for name, done in worker.stats().done.items()},
                "store": str(dsn),
            }
        )
    return code


def _json(done: "CrawlStats") -> dict[str, object]:
    return {
        "pages": done.pages,
        "handed_on": done.handed_on,
        "items": done.items,
        "bytes": done.bytes,
        "failures": dict(done.failures),
    }
