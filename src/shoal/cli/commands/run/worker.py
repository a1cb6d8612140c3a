"""`shoal worker`: serve the crawls of a fleet."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, LogFormat, Quiet, Verbose, examples, option, setting

if TYPE_CHECKING:
    from shoal.model.settings import Settings
    from shoal.services.worker import WorkerPlan

EXAMPLES = examples(
    ("Serve every crawl of the store, until Ctrl-C", "shoal worker --store redis://queue.example"),
    ("Start scheduled crawls as well", "shoal worker --roles fetch,parse,sink,schedule"),
    ("Until no crawl has work left", "shoal worker --store redis://queue.example --until-done"),
    ("With metrics for Prometheus", "shoal worker --store redis://queue.example --metrics 127.0.0.1:9464"),
    (
        "Crawls may write to this database, and nowhere else",
        "shoal worker --store redis://queue.example --allow-output postgresql://shoal@db/shop",
    ),
    ("Without the password on the command line", "SHOAL_STORE=redis://:secret@queue.example shoal worker"),
)

Store = Annotated[str | None, option("--store", "DSN", "The fleet's store.", default="SHOAL_STORE")]
Roles = Annotated[
    str | None,
    option(
        "--roles",
        "LIST",
        "What to do: fetch, parse, sink, schedule, comma-separated; browser: fetch from the pool browser.",
        default="fetch,parse,sink",
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=10_000,
        help="Requests at once, over all crawls. [dim]Default: 64.[/dim]",
        show_default=False,
    ),
]
Metrics = Annotated[
    str | None,
    option("--metrics", "PORT|HOST:PORT", "Serve metrics for Prometheus here, and /readyz, /healthz."),
]
Pools = Annotated[
    str | None,
    option("--pools", "LIST", "Pools whose requests to take, comma-separated.", default="http"),
]
AllowOutput = Annotated[
    list[str] | None,
    option(
        "--allow-output",
        "FOLDER|DSN",
        "Where crawls may write items and pages; repeatable.",
        default="the current folder, and no database",
    ),
]
AllowPrivate = Annotated[bool | None, setting("--allow-private", "", "crawl.allow_private")]
Proxy = Annotated[list[str] | None, setting("--proxy", "URL|FILE", "proxies.list", default="none")]
ProxySlice = Annotated[str | None, setting("--proxy-slice", "K/N|auto", "proxies.slice", default="all of it")]
UntilDone = Annotated[bool, option("--until-done", "", "Exit when no crawl has work left.")]


def command(
    *,
    store: Store = None,
    roles: Roles = None,
    pools: Pools = None,
    concurrency: Concurrency = 64,
    until_done: UntilDone = False,
    allow_output: AllowOutput = None,
    allow_private: AllowPrivate = None,
    proxy: Proxy = None,
    proxy_slice: ProxySlice = None,
    metrics: Metrics = None,
    config: Config = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    log_format: LogFormat = "text",
) -> int:
    """Serve every crawl of a fleet's store, together with any number of other workers.

    The first Ctrl-C finishes the requests in progress, the second stops at once. Other workers take over the
    requests of a worker that was killed.
    """
    from shoal.cli.input.settings_loader import load_settings

    flags = {
        "store": store,
        "worker.allow_outputs": allow_output or None,
        "proxies.list": proxy or None,
        "proxies.slice": proxy_slice,
        "crawl.allow_private": allow_private,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    settings = load_settings(given, config=config).settings
    chosen, served = parse_roles(roles, pools)

    import uvloop

    from shoal.cli.process.log_format import start_logging
    from shoal.services.worker import WorkerPlan, WorkerRules, worker_sandbox

    silent = quiet or json
    start_logging(verbose=verbose, quiet=silent, events=not silent, log_format=log_format)
    # Parsing a page takes less than half of the time that a request may take.
    deadline = settings.crawl.lease / 2
    plan = WorkerPlan(
        roles=chosen,
        pools=served,
        # A browser worker leaves to others what it cannot render soon.
        concurrency=min(concurrency, settings.browser.pages) if only_browsers(served) else concurrency,
        max_crawls=settings.worker.max_crawls,
        procs=settings.worker.procs,
        max_spiders=settings.worker.max_spiders,
        deadline=deadline,
        until_done=until_done,
        rules=WorkerRules.of(settings),
        sandbox=worker_sandbox(settings),
    )
    return uvloop.run(_work(settings, plan, metrics, config=config, json=json))


def only_browsers(pools: tuple[str, ...]) -> bool:
    from shoal.model.request import BROWSER

    return all(pool.startswith(BROWSER) for pool in pools)


def parse_roles(roles: str | None, pools: str | None) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the roles and pools of a worker; the role `browser` is `fetch` from the pool of that name."""
    from shoal.model.errors import Misconfigured
    from shoal.model.request import BROWSER, HTTP
    from shoal.services.worker import ROLES, SCHEDULE

    named = frozenset(ROLES if roles is None else (role.strip() for role in roles.split(",")))
    known = (*ROLES, SCHEDULE, BROWSER)
    if unknown := named.difference(known):
        raise Misconfigured(f"--roles: unknown role {min(unknown)!r}; known: {', '.join(known)}")
    usual = BROWSER if BROWSER in named and "fetch" not in named else HTTP
    served = dict.fromkeys(pool.strip() for pool in (pools or usual).split(","))
    if "" in served:
        raise Misconfigured(f"--pools {pools!r}: name pools, comma-separated, such as http,browser")
    if BROWSER not in named:
        return named, tuple(served)
    return (named - {BROWSER}) | {"fetch"}, tuple(served | {BROWSER: None})


async def _work(
    settings: "Settings", plan: "WorkerPlan", metrics: str | None, *, config: str | None, json: bool
) -> int:
    import time

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.signals import resume_command, stop_on_signals
    from shoal.cli.views.output import print_json, print_message
    from shoal.services.schedules.beside_worker import run_worker
    from shoal.services.schedules.serve import launch_rules
    from shoal.services.store_address import public_address
    from shoal.services.worker import Stop, crawl_stats_json, open_worker

    stop, began = Stop(), time.monotonic()
    async with open_worker(settings.store, plan, stop, metrics=metrics, settings=settings) as worker:
        with stop_on_signals(stop, print_message, resume=resume_command(sys.argv[1:])):
            await run_worker(worker, settings.store, stop, plan.roles, launch_rules(settings, config=config))
    code = ExitCode.INTERRUPTED if plan.until_done and stop.drain.is_set() else ExitCode.FINISHED
    if json:
        print_json(
            {
                "worker": worker.id,
                "ending": "interrupted" if stop.drain.is_set() else "finished",
                "exit_code": int(code),
                "elapsed_s": round(time.monotonic() - began, 3),
                "crawls": {name: crawl_stats_json(done) for name, done in worker.stats().done.items()},
                "store": public_address(settings.store),
            }
        )
    return code
