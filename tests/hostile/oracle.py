"""What must hold after every crawl of hostile cases, whatever they were."""

import csv
import gzip
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.command import shoal
from tests.hostile.case import ATTEMPTS, Case
from tests.hostile.crawling import SECRET, Crawled, ends_of

from shoal.model.failure import POLICY, Action, FailureClass

# Bytes that a crawl may need on top of what it needs when idle. One parse process is judged by itself: both of them
# at their own limit at the same moment would be nearly all of it.
SPARE_FILES = 64  # that it may have open on top of its connections
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)  # what changes the display of a terminal


def complaints(crawled: Crawled, cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each violation."""
    yield from _crawl_complaints(crawled)
    for case in cases:
        yield from (f"{case.id}: {complaint}" for complaint in _case_complaints(crawled, case))


def _crawl_complaints(crawled: Crawled) -> Iterator[str]:
    if crawled.code != 0:
        yield f"exit code {crawled.code}: {crawled.err[-2000:]}"
    for url in crawled.good:
        ended = crawled.end_of(url)
        if ended is None or ended.state != "done":
            yield f"a well-behaved page is not done: {url}: {ended}"
    if crawled.most_files > crawled.before.files + crawled.concurrency + SPARE_FILES:
        yield f"files: {crawled.most_files} at once, {crawled.before.files} when idle"
    if found := CONTROL.search(crawled.out + crawled.err):
        yield f"a control character in the output: {found[0]!r}"
    if crawled.canary.connections:
        yield f"the forbidden server was contacted: {crawled.canary.requests}"
    if crawled.peak > crawled.before.memory + crawled.room:
        yield f"memory: {crawled.peak >> 20} MiB, {crawled.before.memory >> 20} MiB when idle"
    if crawled.largest_child > crawled.child_room:
        yield f"memory of a child: {crawled.largest_child >> 20} MiB"
    for what in ("files", "threads", "children"):
        before, after = getattr(crawled.before, what), getattr(crawled.after, what)
        if after > before:
            yield f"{what}: {before} before, {after} after"
    [status] = shoal("status", "--store", "store", "--json", cwd=crawled.folder).json["crawls"]
    if status["dead_by_class"].get("internal"):
        yield f"bugs: {[end for end in crawled.ended.values() if 'internal' in end.state]}"
    if "\nTraceback" in crawled.err:
        yield f"a traceback: {crawled.err[crawled.err.index('Traceback') :][:2000]}"
    yield from (f"a formula in the CSV: {cell[:40]!r}" for cell in _formulas(crawled.folder))
    verified = shoal("verify", "--store", "store", "--deep", cwd=crawled.folder)
    if verified.code:
        yield f"verify: {verified.out} {verified.err}"
    yield from (f"a secret in {place}" for place in _secrets(crawled))


def _case_complaints(crawled: Crawled, case: Case) -> Iterator[str]:
    evidence = crawled.evidence[case.id]
    expected = ends_of(case)
    for url, ended in evidence.ended.items():
        if ended.state not in expected[url].split("|"):
            yield f"{url}: {ended.state} ({ended.reason}), not {expected[url]}"
        elif ended.state.startswith("dead ") and ended.attempts != attempts_of(ended.state):
            yield f"{url}: {ended.attempts} attempts, not {attempts_of(ended.state)}"
    first = next(iter(evidence.ended.values()))
    if case.reason not in first.reason:
        yield f"{first.reason!r} does not speak of {case.reason!r}"
    if case.check is not None:
        try:
            case.check(evidence)
        except (AssertionError, ValueError) as error:
            yield f"{getattr(case.check, '__name__', '')}: {str(error)[:500]}"


def attempts_of(state: str) -> int:
    policy = POLICY[FailureClass(state.removeprefix("dead "))]
    if policy.action is not Action.RETRY:
        return 1
    return ATTEMPTS if policy.retries is None else min(1 + policy.retries, ATTEMPTS)


def _formulas(folder: Path) -> Iterator[str]:
    """Find cells that a spreadsheet would take for more than text, on any of their lines."""
    csv.field_size_limit(1 << 24)
    for path in folder.glob("items*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for cell in itertools.chain.from_iterable(csv.reader(file)):
                if any(
                    line.lstrip().startswith(("=", "+", "-", "@", "＝")) for line in re.split(r"[\r\n]", cell)
                ):
                    yield cell


def _secrets(crawled: Crawled) -> Iterator[str]:
    secret = SECRET.encode()
    for name, text in (("standard output", crawled.out), ("standard error", crawled.err)):
        if SECRET in text:
            yield name
    for path in (*crawled.store.rglob("*"), *crawled.folder.glob("items*")):
        if path.is_file() and secret in _contents(path):
            yield str(path)


def _contents(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def summary(crawled: Crawled) -> str:
    """Return one line about the crawl."""
    before, after = crawled.before, crawled.after
    return (
        f"memory {before.memory >> 20} MiB idle, {crawled.peak >> 20} MiB at most, "
        f"{crawled.largest_child >> 20} MiB in one child; "
        f"files {before.files} before, {after.files} after; children {before.children} and {after.children}; "
        f"{json.loads(crawled.out)['elapsed_s']:.0f} s"
    )
