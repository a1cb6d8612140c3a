"""One HTML page about a crawl: self-contained, without scripts, readable in light and dark.

The page asks its reader's browser to load nothing: its content security policy allows the one style sheet
inside it, by its digest. So it can be mailed, archived and opened anywhere, whatever text a site has put into
it.
"""

import asyncio
import base64
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from shoal import __version__
from shoal.fetch.exits.ledger import crawl_key, read_spending
from shoal.model.errors import Misconfigured
from shoal.model.exits.spending import Spending, add_costs
from shoal.model.format import count, duration, plural, size
from shoal.services.analysis.charts import Bar, Series, bar_chart, text, time_chart
from shoal.services.analysis.figures import Figures, Group, Share, read_figures
from shoal.services.analysis.query import open_log
from shoal.stores.contract.store import select_crawls
from shoal.stores.open import open_store


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was written."""

    path: Path
    figures: Figures


async def write_report(dsn: str, crawl: str | None, path: Path) -> Report:
    """Write a page about the attempts of one crawl, or of all; raise `Misconfigured` if the log is empty."""
    async with open_log(dsn, crawl) as log:
        figures = await asyncio.to_thread(read_figures, log)
        spent = await total_spending(dsn, crawl)
    if figures is None:
        raise Misconfigured(
            "the fetch log has no attempts: run a crawl first (in a fleet, set archive.location,"
            " or run this where its workers run)"
        )
    page = report_page(figures, made_at=datetime.now(UTC), spent=spent)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise Misconfigured(f"--out {path}: {error.strerror}") from None
    return Report(path, figures)


async def total_spending(dsn: str, crawl: str | None) -> Spending:
    """Return what one crawl, or all of a store, have spent on exits."""
    kinds: Counter[str] = Counter()
    costs: dict[str, float] = {}
    async with open_store(dsn) as store:
        stored = await store.exits.all()
        for name in await select_crawls(store, crawl):
            if (packed := stored.get(crawl_key(name))) is not None:
                spent = read_spending(packed)
                kinds.update(spent.kinds)
                costs = add_costs(costs, spent.costs)
    return Spending(kinds=dict(kinds), costs=costs)


def _style() -> str:
    return files(__package__).joinpath("report.css").read_text()


def content_policy() -> str:
    """Return the policy of the page: it loads and runs nothing; it has one style sheet, known by digest."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def report_page(figures: Figures, *, made_at: datetime, spent: Spending | None = None) -> str:
    """Return the page; `spent`: on the traffic of its crawls."""
    spent = spent or Spending()
    style, policy = _style(), content_policy()
    names = ", ".join(figures.crawls)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{text(names)}: crawl report</title>",
            f"<style>{style}</style></head><body><main>",
            *_sections(figures, spent),
            f"<footer>Made by Shoal {__version__} from the fetch log, {made_at:%Y-%m-%d %H:%M} UTC.</footer>",
            "</main></body></html>",
            "",
        ]
    )


def _sections(figures: Figures, spent: Spending) -> list[str]:
    totals, bins = figures.totals, figures.bins
    times = [one.at for one in bins]
    per_step = duration(figures.step_s) if figures.step_s >= 10 else f"{figures.step_s} s"
    span = f"{_moment(totals.first_at)} to {_moment(totals.last_at)} UTC"
    lead = f"{span}: {plural(totals.hosts, 'host')}, {plural(totals.workers, 'worker')}."
    return [
        f"<h1>{text(', '.join(figures.crawls))}</h1><p>{lead}</p>",
        _tiles(figures, spent),
        _section(
            "Throughput",
            f"Pages and failed attempts per second, averaged over {per_step}.",
            time_chart(
                [
                    Series("pages per second", "c1", [one.pages / one.seconds for one in bins], area=True),
                    Series("failures per second", "c2", [one.failures / one.seconds for one in bins]),
                ],
                times,
                label="pages and failures per second over time",
                show=_rate,
            ),
        ),
        _section(
            "Latency",
            "Of requests that were sent, without the wait for the turn of their host.",
            time_chart(
                [
                    Series("median", "c1", [one.p50_ms for one in bins]),
                    Series("95th percentile", "c3", [one.p95_ms for one in bins]),
                    Series("99th percentile", "c2", [one.p99_ms for one in bins]),
                ],
                times,
                label="percentiles of latency over time",
                show=_milliseconds,
            )
            + _phases(figures),
        ),
        '<div class="two">',
        _section(
            "Failures by class",
            "Attempts that were repeated or given up.",
            _bars(figures.failure_classes, "attempts by failure class", "c2"),
        ),
        _section("Responses", "By status.", _bars(figures.statuses, "requests by status", "c1")),
        "</div>",
        *_left_out(figures),
        _section(
            "Traffic",
            f"Bytes of bodies received, per second, averaged over {per_step}.",
            time_chart(
                [Series("received", "c4", [one.wire_bytes / one.seconds for one in bins], area=True)],
                times,
                label="bytes per second over time",
                show=lambda value: f"{size(round(value))}/s",
            ),
        ),
        _section("Hosts with most failures", "", _table(figures.failing_hosts, "host")),
        _section(
            "Slowest hosts", "By the 95th percentile of their latency.", _table(figures.slowest_hosts, "host")
        ),
        _section("Exits", "How requests left.", _table(figures.exits, "exit") + _costs(spent)),
        _section("Workers", "", _table(figures.workers, "worker")),
    ]


def _tiles(figures: Figures, spent: Spending) -> str:
    totals = figures.totals
    success = 100 * totals.pages / totals.requests if totals.requests else 0.0
    tiles = [
        (count(totals.pages), "pages"),
        (count(totals.items), "items"),
        (count(totals.requests), "requests"),
        (f"{success:.1f} %", "of requests brought a page"),
        (_milliseconds(totals.p50_ms), "median latency"),
        (_milliseconds(totals.p95_ms), "95th percentile"),
        (size(totals.wire_bytes), "received"),
        (duration(max(totals.last_at - totals.first_at, 0.0)), "from first to last request"),
        *([(_money(spent.cost), "cost of traffic")] if spent.cost else []),
    ]
    return '<ul class="tiles">' + "".join(f"<li><b>{a}</b><span>{b}</span></li>" for a, b in tiles) + "</ul>"


def _left_out(figures: Figures) -> list[str]:
    if not figures.left_out:
        return []
    lead = "URLs that are gone, and those that a rule ended before they were sent. They are not failures."
    return [_section("Left out", lead, _bars(figures.left_out, "requests by rule", "c4"))]


def _phases(figures: Figures) -> str:
    rows = "".join(
        f"<tr><td>{name}</td><td>{one.count:,}</td><td>{_milliseconds(one.p50_ms) if one.count else '–'}</td>"
        f"<td>{_milliseconds(one.p95_ms) if one.count else '–'}</td></tr>"
        for one in figures.phases
        if (name := one.name.replace("_", " ").replace("dns", "DNS").replace("tls", "TLS"))
    )
    head = "<tr><th>phase</th><th>requests with it</th><th>median</th><th>95th percentile</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _costs(spent: Spending) -> str:
    """Return what the traffic of each kind of exit cost; empty: no exit has a price."""
    if not spent.cost:
        return ""
    rows = "".join(
        f"<tr><td>{text(kind)}</td><td>{size(spent.kinds.get(kind, 0))}</td><td>{_money(cost)}</td></tr>"
        for kind, cost in sorted(spent.costs.items(), key=lambda pair: -pair[1])
    )
    head = "<tr><th>kind of exit</th><th>traffic</th><th>cost</th></tr>"
    return f'<div class="scroll costs"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _bars(shares: Sequence[Share], label: str, color: str) -> str:
    bars = [Bar(one.name, one.count) for one in shares]
    return (
        bar_chart(bars, label=label, show=lambda value: f"{value:,.0f}", color=color)
        if bars
        else "<p>None.</p>"
    )


def _table(groups: Sequence[Group], name: str) -> str:
    if not groups:
        return "<p>None.</p>"
    columns = (name, "requests", "pages", "failures", "received", "median", "95th")
    head = f"<tr>{''.join(f'<th>{column}</th>' for column in columns)}</tr>"
    rows = "".join(
        f"<tr><td>{text(one.name)}</td><td>{one.requests:,}</td><td>{one.pages:,}</td><td>{one.failures:,}</td>"
        f"<td>{size(one.wire_bytes)}</td><td>{_milliseconds(one.p50_ms)}</td><td>{_milliseconds(one.p95_ms)}</td></tr>"
        for one in groups
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _section(title: str, lead: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{f'<p>{lead}</p>' if lead else ''}{body}</section>"


def _milliseconds(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.1f} s"
    return f"{value:,.0f} ms" if value >= 10 or not value else f"{value:.1f} ms"


def _money(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.1 else f"{value:.2g}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
