"""`shoal report`: one page about a crawl."""

from pathlib import Path
from typing import Annotated

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option

EXAMPLES = examples(
    ("A page about all crawls of the store", "shoal report"),
    ("About one crawl of a fleet", "shoal report --store redis://queue.example --crawl shop --out shop.html"),
)

Out = Annotated[
    Path, option("--out", "FILE", "Where to write the page; replaced.", default="shoal-report.html")
]


def command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    out: Out = Path("shoal-report.html"),
    config: Config = None,
    json: Json = False,
) -> None:
    """Write one HTML page with charts from the fetch log.

    Throughput, latency by percentile and phase, failures by class and host, traffic, slowest hosts, exits and
    workers. The page is self-contained and loads nothing. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.format import plural
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.analysis.report import write_report

    address = chosen_store(store, config=config)
    report = run(write_report(address, crawl, out))
    totals = report.figures.totals
    if json:
        facts = {
            name: getattr(totals, name) for name in ("attempts", "requests", "pages", "items", "failures")
        }
        latency = {"p50_ms": totals.p50_ms, "p95_ms": totals.p95_ms, "p99_ms": totals.p99_ms}
        print_json({"report": str(report.path), "crawls": list(report.figures.crawls), **facts, **latency})
        return
    counted = (plural(totals.requests, "request"), plural(totals.pages, "page"), plural(totals.items, "item"))
    where = f"  written to  {report.path}: open it in a browser"
    print_lines([f"report: {', '.join(counted)}", where])
