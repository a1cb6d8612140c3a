"""What a generation that has ended is judged by, and what becomes part of the range."""

from collections.abc import AsyncIterator, Collection

import pytest

from shoal.engine.generations.yield_check import accepted_state, check_yield
from shoal.engine.runs.facts import KEY as COMMAND
from shoal.engine.runs.facts import CommandFacts
from shoal.frontier.results import Counts, DeadLetter
from shoal.model.crawl_totals import BEGAN, CrawlTotals
from shoal.model.failure import FailureClass
from shoal.model.yields.counts import HISTORY, NO_DATA, GenerationYield, HandlerYield, dump, load_history

PAGES, ITEMS, FILLED = "p\x1fh", "i\x1fh", "f\x1fh\x1fprice"


class Values:
    """The values of a crawl whose pages have all ended."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = {BEGAN: b"5.0", **values}

    async def value(self, crawl: str, key: str) -> bytes | None:
        return self.values.get(key)

    async def counts(self, crawl: str) -> Counts:
        return Counts(done=100, accepted=100)

    async def dead_letters(
        self, crawl: str, *, classes: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]:
        return
        yield


def before(items: int) -> bytes:
    reach = "fb4d1ae0f2a2a7b4"
    return dump(
        [GenerationYield(1.0, "", reach, handlers={"h": HandlerYield(items, items, {"price": items})})]
    )


@pytest.mark.parametrize("items", [-1, 150])
async def test_a_generation_of_which_a_part_was_not_counted_is_neither_judged_nor_recorded(
    items: int,
) -> None:
    values = Values({HISTORY: before(100)})
    part = CrawlTotals(items=items, counts={PAGES: 100, ITEMS: 100, FILLED: 0})

    verdict = await check_yield(values, part, "shop")
    accepted = await accepted_state(values, part, "shop")

    assert verdict.may_replace
    assert HISTORY not in verdict.state
    assert load_history(accepted[HISTORY]) == load_history(before(100))
    whole = CrawlTotals(items=100, counts=part.counts)
    assert [drop.field for drop in (await check_yield(values, whole, "shop")).drops] == ["price"]


async def test_a_generation_without_data_that_was_accepted_stays_accepted() -> None:
    values = Values({COMMAND: CommandFacts(declared=True).dump()})
    totals = CrawlTotals(items=0, counts={PAGES: 100, ITEMS: 0})
    assert (await check_yield(values, totals, "shop")).no_data

    values.values.update(await accepted_state(values, totals, "shop"))
    verdict = await check_yield(values, totals, "shop")  # as each worker of a fleet does

    assert verdict.may_replace
    assert verdict.state[NO_DATA] == b""
