"""What changed between two generations of a crawl, read from the store and its archive. Changes nothing."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import ArchiveReader
from shoal.engine.generations.earlier import KIND, PageResult, decode_result
from shoal.frontier.generations import Generation
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.generations.page_history import PageFate, PageHistory, read_history
from shoal.model.page import PageRef
from shoal.model.request import trace_id
from shoal.services.reprocess.choice import choose_crawl
from shoal.services.reprocess.compare import ItemChange, ItemComparison, UrlChange, compare_url
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

__all__ = ["Generation", "GenerationDiff", "ItemChange", "UrlChange", "diff_generations", "diff_json"]


@dataclass(frozen=True, slots=True)
class ChangedUrl:
    url: str  # empty: the archive cannot be read
    fingerprint: int
    change: UrlChange
    status: int


@dataclass(slots=True)
class GenerationDiff:
    crawl: str
    before: Generation
    after: Generation
    unchanged: int = 0  # pages
    urls: list[ChangedUrl] = field(default_factory=list)
    items: list[ItemChange] = field(default_factory=list)
    unreadable: int = 0  # pages whose results cannot be read: their items are not compared

    @property
    def url_counts(self) -> Counter[UrlChange]:
        return Counter(one.change for one in self.urls)


async def diff_generations(
    dsn: str, *, crawl: str | None = None, before: int | None = None, after: int | None = None
) -> GenerationDiff:
    """Compare two generations of a crawl: by default the last two that the store has."""
    async with open_store(dsn) as store:
        name = await choose_crawl(store, crawl or "", option="shoal diff CRAWL")
        known = await store.frontier.generations(name)
        first, second = choose_generations(name, known, before, after)
        old, new = [await _histories(store, name, one.number) for one in (first, second)]
        reader = (await store.archive_of(name)).archive
        return await _compare(GenerationDiff(name, first, second), old, new, Results(reader))


def choose_generations(
    crawl: str, known: list[Generation], before: int | None, after: int | None
) -> tuple[Generation, Generation]:
    """Return the generations to compare; raise `Misconfigured` if the store does not have them."""
    numbers = {one.number: one for one in known}
    has = ", ".join(map(str, numbers))
    later = known[-1].number if after is None else after
    earlier = before
    if earlier is None:
        earlier = max((number for number in numbers if number < later), default=None)
    if earlier is None:
        raise Misconfigured(
            f"crawl {crawl!r} has nothing to compare: the store has generation {has}; run it with --again,"
            " and see recrawl.keep"
        )
    for number in (earlier, later):
        if number not in numbers:
            raise Misconfigured(f"crawl {crawl!r} has no generation {number}: the store has {has}")
    if earlier >= later:
        raise Misconfigured(f"--from {earlier} --to {later}: the first has to be the earlier one")
    return numbers[earlier], numbers[later]


async def _histories(store: Store, crawl: str, generation: int) -> dict[int, PageHistory]:
    found = {}
    async for fp, packed in store.frontier.histories(crawl, generation):
        if (history := read_history(packed)) is not None:
            found[fp] = history
    return found


class Results:
    """Reads what pages yielded, from the archive."""

    def __init__(self, reader: ArchiveReader) -> None:
        self._reader = reader
        self.unreadable = 0

    async def read(self, ref: PageRef | None) -> PageResult | None:
        """Return a result; None: the page has no result, or it is not readable, which is counted."""
        if ref is None:
            return None
        try:
            block = await asyncio.to_thread(self._reader.read_metadata, ref, KIND)
            result = decode_result(block)
        except (PageUnreadable, Rejected):
            result = None
        self.unreadable += result is None
        return result


async def _compare(
    diff: GenerationDiff, old: dict[int, PageHistory], new: dict[int, PageHistory], results: Results
) -> GenerationDiff:
    items = ItemComparison()
    same: list[PageRef] = []
    for fp in sorted(old.keys() | new.keys()):
        before, after = old.get(fp), new.get(fp)
        change = compare_url(before, after, finished=diff.after.finished)
        was, now = _result_of(before), _result_of(after)
        if change is None:
            diff.unchanged += after is not None and after.fate is PageFate.DONE
        if was == now:
            if was is not None:
                same.append(was)
            if change is None:
                continue
        first, second = await results.read(was), (await results.read(now) if now != was else None)
        url = next((one.url for one in (second, first) if one is not None), "")
        if change is not None:
            status = after.status if after is not None else before.status if before is not None else 0
            diff.urls.append(ChangedUrl(url, fp, change, status))
        # Of a page that was given up or is still to come, nothing is known: its items have not vanished.
        # Neither have those that cannot be read.
        readable = (was is None or first is not None) and (now is None or now == was or second is not None)
        if was != now and readable and change not in (UrlChange.FAILED, UrlChange.OPEN):
            items.add_page(url, first.items if first else (), second.items if second else ())
    if wanted := items.doubtful:
        for ref in same:
            if (result := await results.read(ref)) is not None:
                items.add_unchanged(result.url, result.items, wanted)
    diff.items = items.changes()
    diff.unreadable = results.unreadable
    return diff


def _result_of(history: PageHistory | None) -> PageRef | None:
    return history.result if history is not None and history.fate is PageFate.DONE else None


def diff_json(diff: GenerationDiff) -> dict[str, object]:
    """Return a comparison for --json."""
    return {
        "crawl": diff.crawl,
        "from": _generation(diff.before),
        "to": _generation(diff.after),
        "pages_unchanged": diff.unchanged,
        "pages_unreadable": diff.unreadable,
        "urls": [
            {
                "url": one.url or None,
                "change": one.change.value,
                "status": one.status,
                "trace": trace_id(one.fingerprint),
            }
            for one in diff.urls
        ],
        "items": [
            {
                "key": one.key,
                "url": one.url,
                "change": kind_of(one),
                **(
                    {"item": one.after or one.before}
                    if kind_of(one) != "changed"
                    else {
                        "fields": {
                            name: {"before": old, "after": new} for name, (old, new) in one.fields.items()
                        }
                    }
                ),
            }
            for one in diff.items
        ],
    }


def kind_of(change: ItemChange) -> str:
    if change.before is None:
        return "appeared"
    return "vanished" if change.after is None else "changed"


def _generation(one: Generation) -> dict[str, object]:
    return {"number": one.number, "began": one.began or None, "finished": one.finished}
