"""What a crawl prints when it starts and when it ends, as text and JSON."""

import shlex
from collections.abc import Iterator, Sequence

from shoal.cli.views.format import by_count, by_reason, count, duration, plural, size
from shoal.cli.views.traps import pattern_lines
from shoal.cli.views.words import counts_ended, plain_counts
from shoal.model.failure import FailureClass
from shoal.services.control.dead_letters import DeadLetter
from shoal.services.crawl import Ending, Opening, SeedList, Summary

_HEADLINE = {
    Ending.FINISHED: "Finished",
    Ending.INTERRUPTED: "Interrupted",
    Ending.LIMITED: "Stopped at --max-pages",
    Ending.COMPLETE: "Nothing to do",
    Ending.OVER_BUDGET: "Stopped: the budget for exits is spent",
    Ending.NO_EXIT: "Stopped: no proxy works",
}


def opening_lines(opening: Opening, listed: SeedList | None = None) -> Iterator[str]:
    """Yield whether a crawl starts or resumes, its start URLs, and where its output goes."""
    if opening.resumed:
        settled = sum(opening.counts.get(state, 0) for state in ("done", "gone", "dead", "filtered", "held"))
        left = sum(opening.counts.values()) - settled
        yield f"resuming crawl {opening.crawl}: {count(settled)} ended, {count(left)} left"
    else:
        yield f"starting crawl {opening.crawl}"
    if opening.exits:
        yield f"requests leave through {opening.exits}"
    if listed is not None:
        yield f"{plural(listed.new, 'start URL')} added, {count(listed.known)} already known"
    yield f"items go to {', '.join(map(_place, opening.outputs))}"
    for output in opening.outputs:
        if output.endswith(".parquet"):
            yield f"{output} is complete when the run ends; until then, items are in {output}.parts"
    yield f"pages go to {opening.archive}"
    if opening.host_process:
        yield f"{opening.host_process} owns {opening.store}: this crawl is its guest, with one pace per host"
    if opening.sandbox_warning:
        yield f"WARNING: {opening.sandbox_warning}: shoal doctor names the remedy"


def _place(output: str) -> str:
    return "standard output" if output == "-" else output


def failure_reason(summary: Summary, letters: Sequence[DeadLetter]) -> str:
    """Return in one line why a crawl failed or fetched no page; empty if it did not."""
    counts = summary.snapshot.counts
    if summary.ending is Ending.NO_EXIT:
        return (
            f"requests wait, and none was given up for a proxy: {summary.no_exit or 'see shoal proxy list'}"
        )
    if summary.ending is not Ending.INTERRUPTED and not counts.get("done"):
        why = "; ".join(
            f"{letter.request.url}: {letter.kind.value}: {letter.reason}{_remedy(letter)}"
            for letter in letters
        )
        others = by_count({word: number for word, number in counts_ended(counts).items() if number})
        return f"no page was fetched: {why or others or 'nothing to fetch'}"
    if summary.dropped:
        return "yield dropped: " + "\n  ".join(drop.text for drop in summary.dropped)
    if summary.no_data:
        return summary.no_data
    if summary.max_dead_exceeded:
        given_up = plural(counts.get("dead", 0), "request")
        return f"{given_up} given up, more than --max-dead allows: {by_count(summary.dead_by_class)}"
    return ""


_REMEDIES = {
    FailureClass.REFUSED: "--allow-private allows addresses of this machine and of private networks",
    FailureClass.TLS: "crawl.ca_file names a file of further certificate authorities to trust",
}


def _remedy(letter: DeadLetter) -> str:
    """Return what to change so that a request is not refused by Shoal itself; empty: nothing is known."""
    if letter.kind is FailureClass.REFUSED and "address" not in letter.reason:
        return ""
    remedy = _REMEDIES.get(letter.kind)
    return f" ({remedy})" if remedy else ""


def summary_lines(summary: Summary, *, resume: str) -> Iterator[str]:
    """Yield what a run did, where its output is and what to type next."""
    now, counts = summary.snapshot, summary.snapshot.counts
    rate = now.pages / now.elapsed if now.elapsed > 0 else 0.0
    yield (
        f"{_HEADLINE[summary.ending]}: {plural(now.pages, 'page')} and {plural(now.items, 'item')} "
        f"in {duration(now.elapsed)} ({rate:,.1f} pages/s{f', {size(now.bytes)}' if now.bytes else ''})"
    )
    states = ", ".join(f"{word} {number:,}" for word, number in plain_counts(counts).items() if number)
    yield f"  {'all runs':<10} {states or 'nothing yet'}"
    for label, figures in (
        ("errors", now.failures),
        ("failed", summary.dead_by_class),
        ("skipped", now.filtered),
    ):
        if figures:
            yield f"  {label:<10} {by_count(figures)}"
    if now.retries:
        yield f"  {'retries':<10} {plural(now.retries, 'attempt')} repeated after a failure"
    if now.duplicates:
        yield f"  {'duplicates':<10} {plural(now.duplicates, 'link')} already known"
    for line in pattern_lines(summary.closed, summary.large):
        yield f"  {line}"
    if now.rejected:
        yield f"  {'rejected':<10} {plural(now.rejected, 'item')}, reasons in {summary.rejects}"
    if now.discarded:
        yield f"  {'dropped':<10} {by_reason(now.discarded)}"
    if now.withheld:
        yield f"  {'canonical':<10} {plural(now.withheld, 'item')} of pages with another canonical page"
    if now.unchanged:
        pages = plural(now.unchanged, "page")
        yield f"  {'unchanged':<10} {pages}, not parsed again; shoal diff prints what changed"
    if now.lenient:
        yield f"  {'sloppy':<10} {plural(now.lenient, 'response')} with faults in HTTP, read all the same"
    if now.partial:
        yield f"  {'partial':<10} {plural(now.partial, 'page')} read in part; the log says why"
    if now.hook_faults:
        yield f"  {'hooks':<10} on_error failed {plural(now.hook_faults, 'time')}; see the log"
    if summary.sandbox_warning:
        yield f"  {'sandbox':<10} WARNING: {summary.sandbox_warning}"
    for output in summary.outputs:
        yield f"  {'items':<10} {_place(output)}"
    if summary.kept and (summary.dropped or summary.no_data):
        yield f"  {'kept':<10} {', '.join(summary.kept)}: as the last generation left it"
        yield f"  {'new data':<10} {', '.join(summary.new_data)}"
    elif summary.kept:
        yield f"  {'kept':<10} {', '.join(summary.kept)}: this run has failed, and the last one's items stay"
    if summary.archive:
        yield f"  {'archive':<10} {summary.archive}"
    yield f"Next: {_next(summary, resume=resume)}"


def _next(summary: Summary, *, resume: str) -> str:
    if not summary.durable:
        return f"name a folder with --store to keep the crawl: {summary.store} is deleted"
    store = f"--store {shlex.quote(summary.store)}"
    match summary.ending:
        case Ending.INTERRUPTED:
            return f"{resume}   (resumes this crawl)"
        case Ending.FINISHED | Ending.LIMITED | Ending.COMPLETE if summary.dropped:
            crawl = shlex.quote(summary.snapshot.crawl)
            return f"shoal accept {crawl} {store}   (takes the new data over)"
        case Ending.LIMITED:
            return "run the same command with a larger --max-pages to resume"
        case Ending.OVER_BUDGET:
            return "run the same command with a larger crawl.budget (or crawl.budget_gb) to resume"
        case Ending.NO_EXIT:
            return f"{resume}   (resumes this crawl, when a proxy works)"
        case Ending.FINISHED | Ending.COMPLETE if held := summary.snapshot.counts.get("held"):
            crawl = shlex.quote(summary.snapshot.crawl)
            return f"shoal release {crawl} {store}   (queues {count(held)} URLs that are held back)"
        case Ending.FINISHED if summary.dead_by_class:
            return f"shoal dlq list {store}   (requests given up, and why)"
        case Ending.FINISHED | Ending.COMPLETE:
            return f"shoal verify {store}   (proves that nothing was lost)"
