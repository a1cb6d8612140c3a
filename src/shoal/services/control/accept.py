"""Taking the data of a generation over that was out of the range of those before."""

from dataclasses import dataclass

from shoal.engine.embedded_run.run import publish_drafts
from shoal.engine.generations.yield_check import accepted_state, read_own_totals, read_totals
from shoal.model.errors import Misconfigured
from shoal.model.yields.counts import DROPPED, NO_DATA, YieldDrop, load_drops
from shoal.sinks.drafts import DRAFTS, load_drafts, place_of, publish
from shoal.sinks.names import public_name
from shoal.stores.contract.places import Places
from shoal.stores.contract.store import Store, require_crawl
from shoal.stores.open import open_store


@dataclass(frozen=True, slots=True)
class Accepted:
    crawl: str
    dropped: tuple[YieldDrop, ...]  # what was out of range, and is part of it now
    replaced: tuple[str, ...]  # outputs that have the new data now


async def accept(dsn: str, crawl: str, *, allowed: tuple[str, ...] = ()) -> Accepted:
    """Take the data of a crawl's latest generation over, and its figures into the range.

    Repeating this after a crash completes it. In a fleet, workers replace the outputs on their machines.
    `allowed`: what the operator of this one allows of the outputs that a shared store names.
    """
    async with open_store(dsn) as store:
        require_crawl(crawl, await store.crawls.names())
        if store.capabilities.shared:
            return await _in_fleet(store, crawl, Places(allowed))
        return await _in_folder(store, crawl)


async def _in_folder(store: Store, crawl: str) -> Accepted:
    async with store.work() as working:
        frontier = working.frontier
        dropped = load_drops(await frontier.reader.value(crawl, DROPPED))
        drafts = load_drafts(await frontier.reader.value(crawl, DRAFTS))
        if not dropped and not await frontier.reader.value(crawl, NO_DATA):
            raise _nothing(crawl)
        totals = await read_own_totals(frontier.reader, crawl)
        state = await accepted_state(frontier.reader, totals, crawl)
        await publish_drafts(frontier, crawl, drafts)
        await frontier.commit(crawl_state={crawl: state})  # last: until then this can be repeated
    return Accepted(crawl, dropped, tuple(drafts))


async def _in_fleet(store: Store, crawl: str, places: Places) -> Accepted:
    frontier = store.fleet.frontier
    dropped = load_drops(await frontier.reader.value(crawl, DROPPED))
    if not dropped and not await frontier.reader.value(crawl, NO_DATA):
        raise _nothing(crawl)
    record = await store.fleet.crawls.get(crawl)
    outputs = () if record is None else record.outputs
    drafts = {output: place for output in outputs if (place := place_of(output)) != output}
    for output in drafts:  # every client of the store can write a record
        if refused := places.refusal(output):
            raise Misconfigured(refused.replace("--allow-output", "worker.allow_outputs ="))
    totals = await read_totals(frontier.reader, crawl)
    state = await accepted_state(frontier.reader, totals, crawl)
    await frontier.crawls.store_values(crawl, await frontier.reader.number(crawl), state)
    publish(drafts)
    await store.fleet.crawls.announce()  # workers look again, and replace the outputs on their machines
    return Accepted(crawl, dropped, tuple(map(public_name, drafts)))


def _nothing(crawl: str) -> Misconfigured:
    return Misconfigured(
        f"crawl {crawl!r} has nothing to accept: its latest generation is in the range of those before"
    )
