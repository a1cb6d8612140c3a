"""`shoal plan`: how long a crawl takes, what bounds it, and what it costs."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option
from shoal.cli.views.format import counted
from shoal.stores.address import shown_store

if TYPE_CHECKING:
    from shoal.services.inspect.measure import CrawlStats

EXAMPLES = examples(
    ("How long will the crawl in this folder take?", "shoal plan"),
    ("A site of 50,000 pages, before the first request", "shoal plan --pages 50000 --rate 2"),
    (
        "A million pages on 200 hosts within a week, through a proxy",
        "shoal plan --pages 1e6 --hosts 200 --within 7d --gb-price 0.8",
    ),
)

LATENCY = 0.5  # seconds a page takes, where nothing was measured
PAGE_BYTES = 60_000.0


def _number(names: str, metavar: str, text: str, *, default: str = "") -> object:
    shown = f"{text} [dim]Default: {default}.[/dim]" if default else text
    return typer.Option(*names.split(), metavar=metavar, help=shown, show_default=False, min=0)


def command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    pages: Annotated[float | None, _number("--pages", "N", "Pages to fetch.", default="what waits")] = None,
    hosts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Hosts that the pages are spread over, with --pages.")
    ] = 1,
    rate: Annotated[
        float | None,
        _number("--rate", "N", "Requests per second and host, with --pages.", default="2"),
    ] = None,
    latency: Annotated[
        float | None, _number("--latency", "SECONDS", "What a page takes.", default="as measured, or 0.5")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Requests at once, in all.", show_default=False),
    ] = None,
    page_kb: Annotated[
        float | None, _number("--page-kb", "KB", "Size of a page.", default="as measured, or 60")
    ] = None,
    inflow: Annotated[
        float, typer.Option(metavar="N", min=0, help="New URLs per second that come in meanwhile.")
    ] = 0.0,
    within: Annotated[str | None, option("--within", "AGE", "When it has to be finished: 12h, 7d.")] = None,
    gb_price: Annotated[float | None, _number("--gb-price", "PRICE", "Of a GB through a proxy.")] = None,
    ips: Annotated[int, typer.Option(metavar="N", min=0, help="IP addresses that are rented.")] = 0,
    ip_price: Annotated[float | None, _number("--ip-price", "PRICE", "Of an address for a month.")] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say how long a crawl takes, what bounds it, and what it costs.

    From what a store has measured and what waits there, or with --pages from numbers alone. Sends nothing.
    """
    from asyncio import run

    from shoal.cli.input.dead_letter_filters import age
    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.views.forecast import Plan, Prices, plan_json, plan_lines
    from shoal.cli.views.output import put, put_json
    from shoal.services.inspect.capacity import HostLoad, Load, forecast, host_rate
    from shoal.services.inspect.measure import host_loads, measure

    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    at_once = concurrency or settings.crawl.concurrency
    if pages is None:
        name, found = run(measure(settings.store, crawl))
        takes = latency or found.latency or LATENCY
        loads = host_loads(found, takes)
        page_bytes = found.wire_bytes or PAGE_BYTES
        title = f"{name} in {shown_store(settings.store)}, {_measured(found)}"
    else:
        takes = latency or LATENCY
        pace = settings.crawl.rate if rate is None else rate
        each = host_rate(1 / pace if pace else 0.0, settings.crawl.per_host, takes)
        share, rest = divmod(round(pages), hosts)
        loads = [HostLoad(f"host {n + 1}", share + (n < rest), each) for n in range(hosts)]
        page_bytes = PAGE_BYTES
        title = "from the numbers given"
    load = Load(loads, takes, at_once, inflow)
    plan = Plan(
        title,
        load,
        forecast(load),
        page_bytes if page_kb is None else page_kb * 1000,
        age("--within", within),
        Prices(gb_price, ips, ip_price),
    )
    if json:
        put_json(plan_json(plan))
    else:
        put("\n".join(plan_lines(plan)))


def _measured(found: "CrawlStats") -> str:
    if found.pages:
        return f"measured over {counted(found.pages, 'page')}"
    return "of whose pages nothing was measured: --latency and --page-kb say better"
