"""What a crawl has brought, as a value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.model.errors import Misconfigured
from shoal.model.format import duration, plural
from shoal.services.crawl import RESUMED, CrawlResult, Ending, summary_json

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True, eq=False)
class Result:
    """The result of `shoal.run`: the items of the crawl, and what happened.

    On a store that outlives the run, `items` are those of all runs of the crawl. They are read from the
    output when they are first asked for.
    """

    crawl: str  # its name
    ending: str  # finished, limited (max_pages was reached) or interrupted
    pages: int  # fetched in this run
    counts: Mapping[str, int]  # requests by state, over all runs: done, gone, dead, filtered, waiting, ...
    failures: Mapping[str, int]  # failed attempts by failure class, in this run
    why_empty: str  # why no page was fetched, in one line; empty: there are pages
    outputs: tuple[str, ...]  # where the items are, besides this object
    summary: Mapping[str, Any] = field(repr=False)  # everything that `shoal crawl --json` prints
    load_items: Callable[[], list[dict[str, Any]]] = field(repr=False)

    @cached_property
    def items(self) -> list[dict[str, Any]]:
        """The items, in the order in which they were stored."""
        return self.load_items()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do. If not, the same call on the same store resumes the crawl."""
        return self.ending == Ending.FINISHED.value

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the items as a pandas DataFrame. Needs `pip install 'shoal[pandas]'`."""
        return _import("pandas", "pandas", "to_pandas").DataFrame(self.items, columns=self._fields() or None)

    def to_polars(self) -> "polars.DataFrame":
        """Return the items as a polars DataFrame. Needs `pip install 'shoal[polars]'`."""
        frames = _import("polars", "polars", "to_polars")
        rows = {name: [item.get(name) for item in self.items] for name in self._fields()}
        try:
            return frames.DataFrame(rows, strict=True)
        except TypeError as error:
            raise _mixed(error) from error

    def to_arrow(self) -> "pyarrow.Table":
        """Return the items as an Arrow table. Needs `pip install 'shoal[parquet]'`."""
        arrow = _import("pyarrow", "parquet", "to_arrow")
        try:
            return arrow.table({name: [item.get(name) for item in self.items] for name in self._fields()})
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise _mixed(error) from error

    def _fields(self) -> list[str]:
        """Return the fields of all items, in the order in which they first appear."""
        return list(dict.fromkeys(name for item in self.items for name in item))

    def __str__(self) -> str:
        text = f"{self.ending}: {plural(self.pages, 'page')} and {plural(self.summary['items'], 'item')}"
        text += f" in {duration(self.summary['elapsed_s'])}"
        return f"{text}; {self.why_empty}" if self.why_empty else text


def result_of(found: CrawlResult, load_items: Callable[[], list[dict[str, Any]]]) -> Result:
    """Return the result of a run as callers see it."""
    summary = summary_json(found.summary, code=0)
    failures = {str(failure): number for failure, number in found.summary.snapshot.failures.items()}
    del summary["exit_code"]  # a process has one
    now = found.summary.snapshot
    return Result(
        crawl=now.crawl,
        ending=found.summary.ending.value,
        pages=now.pages,
        counts=dict(now.counts),
        failures=failures,
        why_empty=_why_empty(found),
        outputs=tuple(found.summary.outputs),
        summary=summary | {"failures": failures},
        load_items=load_items,
    )


def _why_empty(found: CrawlResult) -> str:
    counts, letter = found.summary.snapshot.counts, found.dead_letter
    if counts.get("done") or found.summary.ending in RESUMED:
        return ""
    if letter is not None:
        return f"no page was fetched: {letter.request.url}: {letter.kind.value}: {letter.reason}"
    states = [f"{state} {counts[state]:,}" for state in ("dead", "gone", "filtered") if counts.get(state)]
    return f"no page was fetched: {', '.join(states) or 'nothing to fetch'}"


def _import(module: str, extra: str, method: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise Misconfigured(f"{method} needs {module}: run  pip install 'shoal[{extra}]'  first") from error


def _mixed(error: Exception) -> Misconfigured:
    return Misconfigured(
        f"a field of the items has values of several types: {error}; convert it in the handler, or use"
        " to_pandas()"
    )
