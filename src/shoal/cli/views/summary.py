"""The last word of a crawl: the summary for people, and the same for programs."""

import re
import shlex
from collections.abc import Iterator, Sequence

from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.views.format import by_count, count, counted, duration, size
from shoal.cli.views.traps import pattern_lines, patterns_json
from shoal.engine.plan import SeedList
from shoal.engine.snapshot import Ending, Opening, Summary
from shoal.services.control.dead_letters import DeadLetter

_HEADLINE = {
    Ending.FINISHED: "Finished",
    Ending.INTERRUPTED: "Interrupted",
    Ending.LIMITED: "Stopped at --max-pages",
}
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")


def exit_of(summary: Summary, *, max_dead: int | None, listed: SeedList | None = None) -> ExitCode:
    """Decide how the command ends."""
    counts = summary.snapshot.counts
    if summary.ending is Ending.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if summary.max_dead_exceeded:
        return ExitCode.DEAD_LETTERS
    # Nobody means "not one page, all given up" by success, unless they said how many may be given up.
    if max_dead is None and counts.get("dead") and not counts.get("done"):
        return ExitCode.DEAD_LETTERS
    return ExitCode.BAD_LINES if listed is not None and listed.bad else ExitCode.FINISHED


def opening_lines(opening: Opening, listed: SeedList | None = None) -> Iterator[str]:
    """Say whether a crawl begins or goes on, from what, and where its things are."""
    if opening.resumed:
        settled = sum(opening.counts[state] for state in ("done", "gone", "dead", "filtered"))
        left = sum(opening.counts.values()) - settled
        yield f"resuming crawl {opening.crawl}: {count(settled)} settled, {count(left)} to go"
    else:
        yield f"starting crawl {opening.crawl}"
    if listed is not None:
        yield f"{counted(listed.new, 'start URL')} added, {count(listed.known)} known already"
    yield f"items go to {', '.join(map(_place, opening.outputs))}"
    yield f"pages go to {opening.archive}"


def _place(output: str) -> str:
    return "standard output" if output == "-" else output


def shortcoming(summary: Summary, letters: Sequence[DeadLetter]) -> str:
    """Say in one line why a crawl that ended is no success, or hardly one; empty: nothing to say."""
    counts = summary.snapshot.counts
    if summary.ending is not Ending.INTERRUPTED and not counts.get("done"):
        why = "; ".join(f"{letter.request.url}: {letter.kind.value}: {letter.reason}" for letter in letters)
        others = by_count({state: counts[state] for state in ("gone", "filtered") if counts.get(state)})
        return f"not a single page: {why or others or 'nothing to fetch'}"
    if summary.max_dead_exceeded:
        given_up = counted(counts.get("dead", 0), "request")
        return f"{given_up} given up, more than --max-dead allows: {by_count(summary.dead_by_class)}"
    return ""


def summary_lines(summary: Summary, *, again: str) -> Iterator[str]:
    """Tell what a run did, where things are and what to type next."""
    now, counts = summary.snapshot, summary.snapshot.counts
    rate = now.pages / now.elapsed if now.elapsed > 0 else 0.0
    yield (
        f"{_HEADLINE[summary.ending]}: {counted(now.pages, 'page')} and {counted(now.items, 'item')} "
        f"in {duration(now.elapsed)} ({rate:,.1f} pages/s{f', {size(now.bytes)}' if now.bytes else ''})"
    )
    states = ", ".join(f"{state} {number:,}" for state, number in counts.items() if number)
    yield f"  {'all runs':<10} {states or 'nothing yet'}"
    for label, figures in (
        ("failures", now.failures),
        ("filtered", now.filtered),
        ("given up", summary.dead_by_class),
    ):
        if figures:
            yield f"  {label:<10} {by_count(figures)}"
    for line in pattern_lines(summary.quarantined, summary.near_duplicates):
        yield f"  {line}"
    if now.rejected:
        yield f"  {'rejected':<10} {counted(now.rejected, 'item')}, told why in {summary.rejects}"
    if now.withheld:
        yield f"  {'canonical':<10} {counted(now.withheld, 'item')} left to pages that others call canonical"
    if now.hook_faults:
        yield f"  {'hooks':<10} on_error failed {counted(now.hook_faults, 'time')}; the log says why"
    for output in summary.outputs:
        yield f"  {'items':<10} {_place(output)}"
    yield f"  {'archive':<10} {summary.archive}"
    yield f"Next: {_next(summary, again=again)}"


def _next(summary: Summary, *, again: str) -> str:
    store = f"--store {shlex.quote(summary.store)}"
    match summary.ending:
        case Ending.INTERRUPTED:
            return f"{again}   (goes on where this stopped)"
        case Ending.LIMITED:
            return "the same command with a larger --max-pages goes on"
        case Ending.FINISHED if summary.dead_by_class:
            return f"shoal dlq list {store}   (what was given up, and why)"
        case Ending.FINISHED:
            return f"shoal verify {store}   (proves that nothing was lost)"


def summary_json(summary: Summary, *, code: ExitCode) -> dict[str, object]:
    """Give the summary's fields as JSON can hold them; times in seconds."""
    now = summary.snapshot
    return {
        "crawl": now.crawl,
        "ending": summary.ending.value,
        "exit_code": int(code),
        "resumed": summary.resumed,
        "elapsed_s": round(now.elapsed, 3),
        "pages": now.pages,
        "items": now.items,
        "rejected": now.rejected,
        "withheld": now.withheld,
        "hook_faults": now.hook_faults,
        "bytes": now.bytes,
        "pages_per_s": round(now.pages / now.elapsed, 2) if now.elapsed > 0 else 0.0,
        "counts": dict(now.counts),
        "failures": dict(now.failures),
        "filtered": dict(now.filtered),
        "dead_by_class": dict(summary.dead_by_class),
        "quarantined": patterns_json(summary.quarantined),
        "lookalikes": patterns_json(summary.near_duplicates),
        "outputs": list(summary.outputs),
        "rejects": summary.rejects,
        "archive": summary.archive,
        "store": summary.store,
    }


def again(arguments: Sequence[str]) -> str:
    """Give the command that goes on: the same one, without `--fresh`, and without anybody's password."""
    kept = [_PASSWORD.sub("***@", argument) for argument in arguments if argument != "--fresh"]
    return shlex.join(["shoal", *kept])
