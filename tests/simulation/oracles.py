"""What must be true after a run, and what must be true of the site's access log at all times."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.simulation.clock import world
from tests.simulation.plan import Plan
from tests.simulation.web import Access, Web

EARLY_S = 1e-3  # by which a request may come before its turn: the resolution of stored times
STEP_WINDOW_S = 2.0  # around a step of the store's clock


class Broken(AssertionError):
    """A promise that the run has broken; the first word names the oracle."""


def check_items(web: Web, output: Path) -> None:
    """Every item is in the output, once, and the last line is whole."""
    text = output.read_text() if output.exists() else ""
    if text and not text.endswith("\n"):
        raise Broken("items: the last line is not whole")
    found = Counter((row["url"], row["offer"]) for row in map(json.loads, text.splitlines()))
    wanted = Counter((item["url"], item["offer"]) for item in web.graph.expected().items)
    if extra := found - wanted:
        raise Broken(f"items: {extra.total()} are there twice or unknown, as {next(iter(extra))}")
    if missing := wanted - found:
        raise Broken(f"items: {missing.total()} are missing, as {next(iter(missing))}")


def check_counts(web: Web, counts: Mapping[str, int]) -> None:
    """Every URL of the graph has ended, each in its state."""
    expected = web.graph.expected()
    wanted = {
        "done": len(expected.pages) + len(expected.redirects),
        "gone": len(expected.gone),
        "filtered": len(expected.disallowed),
    }
    found = {state: count for state, count in counts.items() if count and state in _STATES}
    if found != {state: count for state, count in wanted.items() if count}:
        raise Broken(f"counts: {found} instead of {wanted}")


_STATES = ("waiting", "delayed", "leased", "parsing", "done", "gone", "filtered", "dead")


def check_pace(plan: Plan, log: Sequence[Access], steps: Sequence[float] = ()) -> None:
    """No host got two requests closer than its pace allows; `steps`: when the store's clock was stepped."""
    last: dict[str, float] = {}
    for access in log:
        before = last.get(access.host)
        last[access.host] = access.at
        if before is None or access.at - before >= 1 / plan.rate - EARLY_S:
            continue
        if any(before - STEP_WINDOW_S <= step <= access.at for step in steps):
            continue
        raise Broken(
            f"pace: {access.at - before:.6f} s between two requests to {access.host},"
            f" {1 / plan.rate} allowed, at {access.at:.4f} by {access.node}"
        )


def check_waste(plan: Plan, web: Web) -> None:
    """Without faults, every URL was asked for exactly once, besides answers that make a client ask again."""
    if not plan.is_quiet:
        return
    asked = Counter(f"http://{one.host}{one.path}" for one in web.log if not one.failed)
    expected = web.graph.expected()
    for url in expected.fetched:
        if asked[url] != 1:
            raise Broken(f"waste: {url} was asked for {asked[url]} times")
    for url, times in asked.items():
        if url.endswith("/robots.txt") and times > max(1, len(plan.workers)):
            raise Broken(f"waste: {url} was asked for {times} times")
    if refused := [url for url in expected.disallowed if asked[url]]:
        raise Broken(f"waste: {refused[0]} was asked for although robots.txt disallows it")


def check_log() -> None:
    """The product has logged no error."""
    if world.errors:
        raise Broken(f"log: {world.errors[0]}")
