"""`shoal plan`: how long a crawl takes, what limits it, and what it costs."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option
from shoal.cli.views.format import plural

if TYPE_CHECKING:
    from shoal.services.inspect.plan import CrawlStats

EXAMPLES = examples(
    ("How long will the crawl in this folder take?", "shoal plan"),
    ("What would this command do to the crawl in this folder?", "shoal plan books.py"),
    ("A site of 50,000 pages, before the first request", "shoal plan --pages 50000 --rate 2"),
    (
        "A million pages on 200 hosts within a week, where traffic has a price",
        "shoal plan --pages 1e6 --hosts 200 --within 7d --gb-price 0.8",
    ),
    ("What do a million pages a day need?", "shoal plan --per-day 1e6"),
)

DEFAULT_LATENCY_S = 0.5  # per page, where nothing was measured
DEFAULT_PAGE_BYTES = 60_000.0


def _number(names: str, metavar: str, text: str, *, default: str = "") -> object:
    described = f"{text} [dim]Default: {default}.[/dim]" if default else text
    return typer.Option(*names.split(), metavar=metavar, help=described, show_default=False, min=0, max=1e15)


def command(
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]",
            help="A spider or URLs: what would shoal crawl do? shoal crawl --dry-run takes all options.",
            show_default=False,
        ),
    ] = None,
    *,
    store: Store = None,
    crawl: Crawl = None,
    pages: Annotated[float | None, _number("--pages", "N", "Pages to fetch.", default="the queue")] = None,
    hosts: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1_000_000, help="Number of hosts that have the pages, with --pages."
        ),
    ] = 1,
    rate: Annotated[
        float | None,
        _number("--rate", "N", "Requests per second and host, with --pages.", default="2"),
    ] = None,
    latency: Annotated[
        float | None, _number("--latency", "SECONDS", "Time per page.", default="as measured, or 0.5")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=100_000_000, help="Requests at once, in all.", show_default=False
        ),
    ] = None,
    page_kb: Annotated[
        float | None, _number("--page-kb", "KB", "Size of a page.", default="as measured, or 60")
    ] = None,
    inflow: Annotated[
        float, typer.Option(metavar="N", min=0, max=1e15, help="New URLs per second while it runs.")
    ] = 0.0,
    within: Annotated[str | None, option("--within", "AGE", "Deadline: 12h, 7d.")] = None,
    gb_price: Annotated[
        float | None,
        _number("--gb-price", "PRICE", "Price per GB of traffic.", default="as paid, or of proxies.list"),
    ] = None,
    ips: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=1_000_000_000,
            help="Number of rented IP addresses. [dim]Default: those of proxies.list.[/dim]",
            show_default=False,
        ),
    ] = None,
    ip_price: Annotated[
        float | None,
        _number("--ip-price", "PRICE", "Price per address and month.", default="of proxies.list"),
    ] = None,
    per_day: Annotated[
        float | None,
        _number("--per-day", "N", "Pages per day: what they need, instead of a forecast."),
    ] = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Forecast how long a crawl takes, what limits it, and what it costs.

    Uses the measurements and the queue of a store, or with --pages only numbers. With TARGET, says what shoal
    crawl would do: begin, resume, extend, refuse or nothing. Sends no request.
    """
    from asyncio import run

    if target:
        from shoal.cli.commands.run.crawl import RunOptions
        from shoal.cli.commands.run.crawl import command as crawl_command

        dry_run = RunOptions(target=target, store=store, crawl=crawl, config=config, json=json, dry_run=True)
        return crawl_command(dry_run)

    from shoal.cli.input.dead_letter_filters import age
    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.views.forecast import plan_lines
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.inspect.capacity import HostLoad, Load, forecast, host_rate
    from shoal.services.inspect.plan import Plan, Prices, exit_prices, host_loads, measure, plan_json
    from shoal.services.store_address import public_address

    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    known = exit_prices(settings)
    if per_day is not None:
        from shoal.cli.views.forecast import volume_lines
        from shoal.services.inspect.volume import Volume, advice_json, advise

        volume = Volume(
            per_day=per_day,
            rate=settings.crawl.rate if rate is None else rate,
            latency=latency or DEFAULT_LATENCY_S,
            page_bytes=DEFAULT_PAGE_BYTES if page_kb is None else page_kb * 1000,
            price_gb=known.per_gb if gb_price is None else gb_price,
            price_address=known.per_address if ip_price is None else ip_price,
            addresses=known.addresses if ips is None else ips,
        )
        if json:
            print_json(advice_json(advise(volume)))
        else:
            print_lines(volume_lines(volume, advise(volume)))
        return 0
    at_once = concurrency or settings.crawl.concurrency
    if pages is None:
        found = run(measure(settings.store, crawl))
        known = exit_prices(settings, found.spent)
        latency_s = latency or found.stats.latency or DEFAULT_LATENCY_S
        loads = host_loads(found.stats, latency_s)
        page_bytes = found.page_bytes or DEFAULT_PAGE_BYTES
        title = f"{found.crawl} in {public_address(settings.store)}, {_measured(found.stats)}"
    else:
        latency_s = latency or DEFAULT_LATENCY_S
        pace = settings.crawl.rate if rate is None else rate
        each = host_rate(1 / pace if pace else 0.0, settings.crawl.per_host, latency_s)
        share, rest = divmod(round(pages), hosts)
        loads = [HostLoad(f"host {n + 1}", share + (n < rest), each) for n in range(hosts)]
        page_bytes = DEFAULT_PAGE_BYTES
        title = "from the given numbers"
    load = Load(loads, latency_s, at_once, inflow)
    plan = Plan(
        title,
        load,
        forecast(load),
        page_bytes if page_kb is None else page_kb * 1000,
        age("--within", within),
        Prices(
            known.per_gb if gb_price is None else gb_price,
            known.addresses if ips is None else ips,
            known.per_address if ip_price is None else ip_price,
        ),
    )
    if json:
        print_json(plan_json(plan))
    else:
        print_lines(plan_lines(plan))
    return 0


def _measured(found: "CrawlStats") -> str:
    if found.pages:
        return f"measured over {plural(found.pages, 'page')}"
    return "no pages measured yet: set --latency and --page-kb for a better forecast"
