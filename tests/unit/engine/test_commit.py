"""Group commit: the order that the promises rest on."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import pytest
from tests.unit.engine.leased import SentLinksCounter

from shoal.archive.writer import Part
from shoal.engine import outputs as output_module
from shoal.engine.commit import COMMIT_BATCH, COMMIT_LINK_BYTES, Committer, count_within
from shoal.engine.outputs import EmbeddedOutputs, StreamedOutputs
from shoal.model.crawl_totals import EXAMPLES, KEY, CrawlTotals
from shoal.model.errors import Unavailable
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Gone, Lease, Settlement
from shoal.model.page import Item, PageRecord, PageRef, ParseFault, ParseResult
from shoal.model.request import Request


def lease(number: int) -> Lease:
    return Lease("c", number, 1, "a.test", Request(url="http://a.test/"), 1, 0, 0, 60.0, 0.0, 1)


def settlement(number: int) -> Settlement:
    return Settlement(lease(number), Done(PageRecord(PageRef("s", 0, 1), 200, 0.0)))


T = TypeVar("T")


def brought(key: str, **more: object) -> ParseResult:
    return msgspec.structs.replace(ParseResult(0, (Item(key, b"{}"),)), **more)


@dataclass
class Witness:
    """Store, archive and sinks in one, noting what was called in which order."""

    calls: list[str] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)  # items that came with what was settled
    rejected: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    checkpoints: dict[str, bytes] = field(default_factory=dict)
    state: dict[str, bytes] = field(default_factory=dict)
    broken: bool = False
    kept: list[int] = field(default_factory=list)  # leases that no deadline may end
    new: int = 0

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        return [lease for lease in leases if lease.fingerprint not in self.lost]

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        self.kept += [lease.fingerprint for lease in leases]

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> "Witness":
        self.calls.append("commit")
        self.settled += [s.lease.fingerprint for s in settlements]
        self.carried += [item.key for settlement in settlements for item in settlement.items]
        self.carried += [item.key for parsed in acknowledgements for item in parsed.items]
        self.settled += [a.fingerprint for a in acknowledgements]
        self.checkpoints = dict(checkpoints)
        self.state.update(crawl_state.get("c", {}))
        return self

    def write(self, items: Sequence[Item]) -> None:
        self.written += [item.key for item in items]

    def flush(self) -> None:
        if self.broken:
            raise OSError("disk full")
        self.calls.append("archive")

    async def flush_async(self) -> None:
        self.flush()

    def begin_flush(self) -> list[Part]:
        return []

    def write_parts(self, parts: Sequence[Part]) -> None:
        self.flush()

    def end_flush(self, parts: Sequence[Part]) -> bytes:
        return b"archive-position"


@dataclass
class SinkWitness:
    witness: Witness

    def write(self, items: Sequence[Item]) -> None:
        self.witness.write(items)

    def flush(self) -> bytes:
        self.witness.calls.append("sinks")
        return b"42"

    def finish(self) -> bytes:
        return self.flush()


@dataclass
class AbsentArchive(Witness):
    times: int = 0  # that it does not answer

    async def flush_async(self) -> None:
        if self.times:
            self.times -= 1
            raise Unavailable("archive: no response")
        self.flush()


@dataclass
class HangingStore(Witness):
    hangs: bool = True
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Witness:
        self.asked.set()
        if self.hangs:
            await asyncio.Event().wait()
        return await super().commit(settlements, acknowledgements, checkpoints, crawl_state)


@dataclass
class RejectsWitness:
    witness: Witness

    def write(self, items: Sequence[Item]) -> None:
        self.witness.rejected += [item.key for item in items]

    def flush(self) -> bytes:
        self.witness.calls.append("rejects")
        return b"7"

    def finish(self) -> bytes:
        return self.flush()


@dataclass
class StaleWitness:
    witness: Witness

    def forget_sent_links(self) -> None:
        self.witness.calls.append("stale")


async def at_once(call: Callable[[], T]) -> T:
    return call()


def committer(witness: Witness, totals: CrawlTotals | None = None) -> Committer:
    sinks, rejects = SinkWitness(witness), RejectsWitness(witness)
    outputs = EmbeddedOutputs("c", witness, sinks, rejects, totals or CrawlTotals(), run=at_once)
    return Committer(
        witness,
        outputs,
        wake=asyncio.Event(),
        sent_links=StaleWitness(witness),
    )


async def test_bytes_are_out_before_the_store_says_so() -> None:
    witness = Witness()
    work = committer(witness)
    work.settle(settlement(1), brought("k"))
    assert witness.kept == [1]

    await work.flush()

    assert witness.calls == ["archive", "sinks", "commit"]
    assert witness.checkpoints == {"c/sinks": b"42", "c/archive": b"archive-position"}


async def test_a_lease_that_ran_out_brings_neither_its_items_nor_its_outcome() -> None:
    witness = Witness(lost={2})
    work = committer(witness)
    for number in (1, 2, 3):
        work.settle(settlement(number), brought(str(number)))

    await work.flush()

    assert witness.settled == [1, 3]
    assert witness.written == ["1", "3"]
    assert witness.calls.count("stale") == 1


async def test_a_page_parsed_later_brings_its_items_with_its_acknowledgement() -> None:
    witness = Witness()
    work = committer(witness)
    done = Done(PageRecord(PageRef("s", 0, 1), 200, 0.0))
    work.acknowledge(Acknowledgement("c", 9, done), brought("nine"))

    await work.flush()

    assert witness.settled == [9]
    assert witness.written == ["nine"]


async def test_a_page_settled_too_late_brings_nothing_when_its_parse_ends() -> None:
    witness = Witness(lost={9})
    work = committer(witness)
    page = PageRecord(PageRef("s", 0, 1), 200, 0.0)
    work.settle(Settlement(lease(9), Fetched(page)))
    await work.flush()
    witness.lost.clear()  # leased again since: the next parse is the one that counts
    work.acknowledge(Acknowledgement("c", 9, Done(page)), brought("late"))
    work.acknowledge(Acknowledgement("c", 9, Done(page)), brought("again"))

    await work.flush()

    assert witness.settled == [9]
    assert witness.written == ["again"]


async def test_rejected_items_are_out_before_the_store_says_so_and_go_with_their_lease() -> None:
    witness = Witness(lost={2})
    work = committer(witness)
    for number in (1, 2):
        work.settle(settlement(number), brought(str(number), rejected=(Item(f"bad {number}", b"{}"),)))

    await work.flush()

    assert witness.rejected == ["bad 1"]
    assert witness.calls.index("rejects") < witness.calls.index("commit")
    assert witness.checkpoints["c/rejects"] == b"7"


async def test_what_is_left_out_is_summed_up_in_the_transaction_of_its_page() -> None:
    witness = Witness(lost={2})
    work = committer(witness, CrawlTotals({"scope": 10}, 1))
    for number in (1, 2, 3):
        page = brought(str(number), rejected=(Item("bad", b"{}"),), dropped={"scope": 1, "trap": 2})
        work.settle(settlement(number), page)

    await work.flush()

    assert CrawlTotals.load(witness.state[KEY]) == CrawlTotals({"scope": 12, "trap": 4}, 3)


async def test_what_a_hook_brings_and_its_faults_are_summed_up_apart_from_pages() -> None:
    witness = Witness()
    work = committer(witness)
    dead = Dead(Failure(FailureClass.TIMEOUT, "too slow"))
    work.settle(Settlement(lease(1), dead), brought("hooked"))
    work.settle(Settlement(lease(2), Gone(404)), ParseResult(0, fault=ParseFault("raised")))
    work.settle(settlement(3), brought("page"))

    await work.flush()

    assert witness.written == ["hooked", "page"]
    assert CrawlTotals.load(witness.state[KEY]) == CrawlTotals(hook_items=1, hook_faults=1)


async def test_a_page_that_leaves_nothing_out_writes_no_sums() -> None:
    witness = Witness()
    work = committer(witness)
    work.settle(settlement(1), brought("k"))

    await work.flush()

    assert witness.state == {}


async def test_examples_are_written_only_when_they_have_changed() -> None:
    witness, totals = Witness(), CrawlTotals(items=0)
    work = committer(witness, totals)
    counts = {"p\x1fh": 1, "i\x1fh": 1, "f\x1fh\x1fprice": 0}

    states = []
    for number, url in enumerate(("/1", "/2", "")):
        if url:
            totals.add_example(url, counts)
        work.settle(settlement(number), msgspec.structs.replace(brought(f"k{number}"), counts=counts))
        witness.state = {}
        await work.flush()
        states.append(dict(witness.state))

    assert [EXAMPLES in state for state in states] == [True, True, False]
    assert CrawlTotals.load(states[2][KEY], states[1][EXAMPLES]) == totals
    assert totals.items == totals.counts["i\x1fh"] == 3


async def test_in_a_fleet_items_travel_with_their_page_once_it_is_archived() -> None:
    witness = Witness(lost={2})
    work = Committer(
        witness,
        StreamedOutputs(witness, RejectsWitness(witness), CrawlTotals(), patience=lambda: 0.0),
        wake=asyncio.Event(),
        sent_links=SentLinksCounter(),
    )
    for number in (1, 2):
        work.settle(settlement(number), brought(str(number), rejected=(Item(f"bad {number}", b"{}"),)))
    work.acknowledge(Acknowledgement("c", 9, Done(PageRecord(PageRef("s", 0, 1), 200, 0.0))), brought("9"))

    await work.flush()

    assert witness.carried == ["1", "9"]
    assert witness.rejected == ["bad 1"]
    assert witness.calls == ["archive", "rejects", "commit"]
    assert witness.checkpoints == {}


async def test_in_a_fleet_writing_is_retried_until_the_archive_is_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_module, "ARCHIVE_RETRY_S", 0.0)
    witness = AbsentArchive(times=3)
    # Finite, and shorter than this machine has run: what counts is the time since the first failure.
    patience = min(3600.0, time.monotonic())
    streamed = StreamedOutputs(witness, RejectsWitness(witness), CrawlTotals(), patience=lambda: patience)
    work = Committer(witness, streamed, wake=asyncio.Event(), sent_links=SentLinksCounter())
    work.settle(settlement(1), brought("k"))

    await work.flush()

    assert witness.times == 0
    assert witness.carried == ["k"]


@pytest.mark.parametrize("own", [True, False], ids=["own", "streamed"])
async def test_a_commit_that_is_cut_off_is_made_again_with_every_item_once(own: bool) -> None:
    witness = HangingStore()
    outputs = (
        EmbeddedOutputs(
            "c", witness, SinkWitness(witness), RejectsWitness(witness), CrawlTotals(), run=at_once
        )
        if own
        else StreamedOutputs(witness, RejectsWitness(witness), CrawlTotals(), patience=lambda: 0.0)
    )
    work = Committer(witness, outputs, wake=asyncio.Event(), sent_links=SentLinksCounter())
    work.settle(settlement(1), brought("one"))
    work.acknowledge(Acknowledgement("c", 9, Done(PageRecord(PageRef("s", 0, 1), 200, 0.0))), brought("nine"))
    cut_off = asyncio.ensure_future(work.flush())
    await witness.asked.wait()
    cut_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut_off

    assert work.pending == 2
    witness.hangs = False
    await work.flush()

    assert witness.settled == [1, 9]
    assert (witness.written if own else witness.carried) == ["one", "nine"]
    assert work.pending == 0


@dataclass
class SlowHeld(Witness):
    """A store that does not say which leases are held until `answers` is set."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        self.asked.set()
        await self.answers.wait()
        return await super().held(leases)


async def test_a_commit_that_is_cut_off_before_it_knows_its_leases_keeps_everything_in_order() -> None:
    witness = SlowHeld()
    work = committer(witness)
    parsed = Done(PageRecord(PageRef("s", 0, 1), 200, 0.0))
    work.settle(settlement(1), brought("1"))
    work.acknowledge(Acknowledgement("c", 8, parsed), brought("8"))
    cut_off = asyncio.ensure_future(work.flush())
    await witness.asked.wait()
    work.settle(settlement(2), brought("2"))
    work.acknowledge(Acknowledgement("c", 9, parsed), brought("9"))
    cut_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut_off

    assert (work.pending, len(work.leases)) == (4, 2)
    witness.answers.set()
    await work.flush()

    assert witness.settled == [1, 2, 8, 9]
    assert witness.written == ["1", "2", "8", "9"]


async def test_an_archive_is_retried_no_longer_than_the_store() -> None:
    witness = AbsentArchive(times=3)
    streamed = StreamedOutputs(witness, RejectsWitness(witness), CrawlTotals(), patience=lambda: -1.0)

    with pytest.raises(Unavailable):
        await streamed.flush()


async def test_an_empty_commit_makes_no_transaction() -> None:
    witness = Witness()

    await committer(witness).flush()

    assert witness.calls == []


async def test_a_full_group_does_not_wait_for_the_clock() -> None:
    witness = Witness()
    work = committer(witness)
    running = asyncio.ensure_future(work.run())
    for number in range(COMMIT_BATCH):
        work.settle(settlement(number))

    for _ in range(10):  # turns of the loop, no time
        await asyncio.sleep(0)
    running.cancel()

    assert len(witness.settled) == COMMIT_BATCH


async def test_a_failing_archive_stops_the_commit_before_the_store() -> None:
    witness = Witness(broken=True)
    work = committer(witness)
    work.settle(settlement(1))

    with pytest.raises(OSError, match="disk full"):
        await work.flush()

    assert "commit" not in witness.calls


def test_a_commit_has_a_budget_of_link_bytes_and_at_least_one_page() -> None:
    page, huge = (
        (None, ParseResult(0, requests=(bytes(3), bytes(2)))),
        (None, ParseResult(0, requests=(bytes(20),))),
    )

    assert count_within([page, page, page], 10) == (2, 10)
    assert count_within([huge, page], 10) == (1, 20)
    assert count_within([(None, None), page, huge], 10) == (2, 5)
    assert count_within([], 10) == (0, 0)


async def test_pages_with_many_links_are_committed_one_after_the_other() -> None:
    witness = Witness()
    work = committer(witness)
    for number in range(3):
        work.settle(settlement(number), ParseResult(number, requests=(bytes(COMMIT_LINK_BYTES - 1),)))
    assert work.link_bytes == 3 * (COMMIT_LINK_BYTES - 1)

    await work.flush()

    assert witness.calls.count("commit") == 3
    assert witness.settled == [0, 1, 2]
    assert (work.pending, work.link_bytes) == (0, 0)
