"""The contract of a sink as tests.

`shoal.sinks` has the same contract in prose, `shoal.sinks.contract` as types. The test class of a sink
derives from `SinkContract` and provides the fixture `bench`, with a new output for each test:

    from shoal.testing.contracts.sink import SinkContract

    @dataclass
    class MyBench:                                  # fits `SinkBench`
        output: str

        def open(self, *, overwrite: bool = False) -> Sink:
            return open_sink(self.output, overwrite=overwrite)

        def read(self) -> list[dict[str, Any]]:
            ...                                     # the fields of all items, in order

        def remove(self) -> None:
            Path(self.output).unlink()

        def stored_text(self, text: str) -> str:
            return text

    class TestMySink(SinkContract):
        @pytest.fixture
        def bench(self, tmp_path: Path) -> MyBench:
            return MyBench(str(tmp_path / "items.myfmt"))

One test kills a process that writes the output, so a bench must be picklable and its module importable. A
sink that keeps its checkpoint for a fleet (`SinkFactory.open_checkpointed`) also derives from
`CheckpointedSinkContract`.
"""

import json
import multiprocessing
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import pytest

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.sinks.contract import CheckpointedSink, Sink
from shoal.sinks.registry import resolve

__all__ = ["CheckpointedSinkContract", "SinkBench", "SinkContract", "item", "items"]

PROCESS_TIMEOUT_S = 60.0


class SinkBench(Protocol):
    """One output, and what a test can do to it."""

    @property
    def output(self) -> str:
        """The output as an operator writes it after --out."""

    def open(self, *, overwrite: bool = False) -> Sink:
        """Open a sink for the output; called again after each close or crash."""

    def read(self) -> list[dict[str, Any]]:
        """Return the fields of all items in the output, in the order of writing, after `finish`."""

    def remove(self) -> None:
        """Delete or rename the output without the knowledge of the sink."""

    def stored_text(self, text: str) -> str:
        """Return a text as the output stores it, for formats that cannot store every character."""


class SinkCrawl:
    """What the store of a crawl does with a sink: it keeps the checkpoint that was committed last."""

    def __init__(self, bench: SinkBench, committed: bytes | None = None) -> None:
        self.bench = bench
        self.committed = committed

    def resume(self, *, overwrite: bool = False) -> Sink:
        sink = self.bench.open(overwrite=overwrite)
        sink.restore(self.committed)
        self.committed = self.committed or sink.flush()
        return sink

    def commit(self, sink: Sink) -> None:
        self.committed = sink.flush()

    def finish(self) -> list[dict[str, Any]]:
        """Finish what is committed, and read it."""
        sink = self.resume()
        self.committed = sink.finish()
        sink.close()
        return self.bench.read()

    def numbers(self) -> list[int]:
        return [fields["n"] for fields in self.finish()]


def item(number: int, text: str = "text", key: str = "") -> Item:
    return Item(key or f"key-{number}", json.dumps({"n": number, "text": text}, ensure_ascii=False).encode())


def items(numbers: Iterable[int]) -> list[Item]:
    return [item(number) for number in numbers]


ODD_TEXTS = (
    "",
    'quotes " and "" and \'',
    "commas, semicolons; tabs\t, and more",
    "lines\nand\r\nlines\rand\u2028lines",
    "nul \0 in the middle",
    "\uffff\ufffe \u202e bidi \u2066 marks \ufeff",
    "e" + "\u0301" * 5000,
    "🐟 beyond the first plane",
    "=cmd|' /C calc'!A0",
    " leading and trailing ",
    "\\0 \\n backslashes",
    "[1, 2]",
    "null",
)


class SinkContract:
    @pytest.fixture
    def crawl(self, bench: SinkBench) -> SinkCrawl:
        return SinkCrawl(bench)

    def test_items_are_written_once_and_in_order(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        for start in range(0, 50, 10):
            sink.write(items(range(start, start + 10)))
            crawl.commit(sink)
        sink.close()

        assert crawl.numbers() == list(range(50))

    def test_a_finished_output_can_be_continued(self, crawl: SinkCrawl) -> None:
        for start in (0, 5, 10):
            sink = crawl.resume()
            sink.write(items(range(start, start + 5)))
            crawl.committed = sink.finish()
            sink.close()

            assert [fields["n"] for fields in crawl.bench.read()] == list(range(start + 5))

    def test_opening_touches_nothing(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(3)))
        crawl.commit(sink)
        sink.close()

        crawl.bench.open(overwrite=True).close()

        assert crawl.numbers() == [0, 1, 2]

    def test_items_that_were_flushed_and_not_committed_are_cut_off(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(10)))
        crawl.commit(sink)
        sink.write(items(range(10, 30)))
        sink.flush()
        sink.close()

        assert crawl.numbers() == list(range(10))

    def test_items_that_were_not_flushed_are_dropped(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(3)))
        crawl.commit(sink)
        sink.write(items(range(3, 6)))
        sink.close()

        assert crawl.numbers() == [0, 1, 2]

    def test_a_replay_after_a_crash_gives_the_same_as_no_crash(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(5)))
        crawl.commit(sink)
        sink.write(items(range(5, 12)))
        sink.flush()
        sink.close()

        again = crawl.resume()
        again.write(items(range(5, 20)))
        crawl.commit(again)
        again.close()

        assert crawl.numbers() == list(range(20))

    def test_a_page_that_changed_before_the_replay_leaves_no_old_items(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write([item(0)])
        crawl.commit(sink)
        sink.write([item(1), item(2), item(3)])
        sink.flush()
        sink.close()

        again = crawl.resume()
        again.write([item(1, "changed")])
        crawl.commit(again)
        again.close()

        assert crawl.finish() == [{"n": 0, "text": "text"}, {"n": 1, "text": "changed"}]

    def test_a_crash_before_the_first_commit_does_not_block_the_crawl(self, crawl: SinkCrawl) -> None:
        sink = crawl.bench.open()
        sink.restore(None)
        sink.close()

        assert crawl.numbers() == []

    def test_a_crash_during_the_first_batch_is_cut_back_to_nothing(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(20)))
        sink.flush()
        sink.close()

        assert crawl.numbers() == []

    def test_a_finish_that_was_not_committed_is_undone(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(4)))
        crawl.commit(sink)
        sink.write(items(range(4, 6)))
        sink.finish()
        sink.close()

        again = crawl.resume()
        again.write(items(range(4, 9)))
        crawl.commit(again)
        again.close()

        assert crawl.numbers() == list(range(9))

    def test_restoring_again_changes_nothing(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(10)))
        crawl.commit(sink)
        sink.write(items(range(10, 20)))
        sink.flush()
        sink.close()

        for _ in range(3):
            crawl.resume().close()

        assert crawl.numbers() == list(range(10))

    def test_a_flush_without_new_items_returns_the_same_checkpoint(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(3)))
        crawl.commit(sink)
        sink.write([])

        assert sink.flush() == crawl.committed
        sink.close()

    def test_the_output_of_another_crawl_is_refused_and_unchanged(self, crawl: SinkCrawl) -> None:
        other = SinkCrawl(crawl.bench)
        sink = other.resume()
        sink.write(items(range(3)))
        other.commit(sink)
        sink.close()

        with pytest.raises(Misconfigured):
            crawl.resume()

        assert other.numbers() == [0, 1, 2]

    def test_an_output_is_overwritten_only_on_request(self, crawl: SinkCrawl) -> None:
        other = SinkCrawl(crawl.bench)
        sink = other.resume()
        sink.write(items(range(30)))
        other.committed = sink.finish()
        sink.close()

        sink = crawl.resume(overwrite=True)
        sink.write([item(7)])
        crawl.commit(sink)
        sink.close()

        assert crawl.numbers() == [7]

    def test_an_output_that_was_removed_cannot_be_restored(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(3)))
        crawl.commit(sink)
        sink.close()
        crawl.bench.remove()

        with pytest.raises(Misconfigured):
            crawl.resume()

    def test_removing_the_output_while_it_is_written_is_an_error(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write(items(range(10)))
        crawl.commit(sink)
        crawl.bench.remove()

        sink.write(items(range(10, 20)))
        with pytest.raises(Misconfigured):
            sink.flush()
        sink.close()

    def test_equal_items_with_different_keys_are_two_items(self, crawl: SinkCrawl) -> None:
        pair = [item(1, key="page-0"), item(1, key="page-1")]
        sink = crawl.resume()
        sink.write(pair)
        sink.flush()
        sink.close()

        again = crawl.resume()
        again.write(pair)
        crawl.commit(again)
        again.close()

        assert crawl.numbers() == [1, 1]

    def test_odd_text_is_stored(self, crawl: SinkCrawl) -> None:
        sink = crawl.resume()
        sink.write([item(number, text) for number, text in enumerate(ODD_TEXTS)])
        crawl.commit(sink)
        sink.close()

        assert crawl.finish() == [
            {"n": number, "text": crawl.bench.stored_text(text)} for number, text in enumerate(ODD_TEXTS)
        ]

    def test_a_field_can_have_ten_megabytes(self, crawl: SinkCrawl) -> None:
        text = 'a"b,c\n' * (10 * 1024 * 1024 // 6)
        sink = crawl.resume()
        sink.write([item(1, text), item(2)])
        crawl.commit(sink)
        sink.close()

        assert crawl.finish() == [{"n": 1, "text": text}, {"n": 2, "text": "text"}]

    @pytest.mark.parametrize("seed", range(25))
    def test_any_history_of_crashes_ends_with_every_item_once(self, crawl: SinkCrawl, seed: int) -> None:
        rng = random.Random(seed)
        sink, written, committed = crawl.resume(), 0, 0
        for _ in range(rng.randint(1, 15)):
            match rng.choice(["write", "write", "flush", "commit", "crash", "finish"]):
                case "write":
                    sink.write(items(range(written, written + 3)))
                    written += 3
                case "flush":
                    sink.flush()
                case "commit":
                    crawl.commit(sink)
                    committed = written
                case "finish":
                    crawl.committed = sink.finish()
                    committed = written
                case "crash":
                    sink.flush()
                    sink.close()
                    sink, written = crawl.resume(), committed
        sink.close()

        assert crawl.numbers() == list(range(committed))

    def test_a_killed_process_leaves_every_committed_item_once(
        self, bench: SinkBench, tmp_path: Path
    ) -> None:
        store = tmp_path / "store"
        rng = random.Random(bench.output.rpartition(".")[2])
        for _ in range(4):
            _kill_after(rng.randint(1, 40), bench, store)

        count, committed = _read_store(store)
        assert SinkCrawl(bench, committed).numbers() == list(range(count))
        assert count > 0

    def test_a_countable_output_is_counted_up_to_the_checkpoint(self, crawl: SinkCrawl) -> None:
        recount = resolve(crawl.bench.output).factory.recount
        if recount is None:
            return
        sink = crawl.resume()
        assert crawl.committed is not None
        assert recount(crawl.bench.output, crawl.committed) == 0
        sink.write(items(range(8)))
        crawl.commit(sink)
        sink.write(items(range(8, 12)))
        sink.flush()

        assert recount(crawl.bench.output, crawl.committed) == 8
        sink.close()
        crawl.bench.remove()
        with pytest.raises(Rejected):
            recount(crawl.bench.output, crawl.committed)

    def test_a_readable_output_yields_the_items_in_order(self, crawl: SinkCrawl) -> None:
        read = resolve(crawl.bench.output).factory.read
        if read is None:
            return
        sink = crawl.resume()
        for start in range(0, 30, 10):
            sink.write(items(range(start, start + 10)))
            crawl.commit(sink)
        for _ in range(2):  # while a crawl writes the output, and when it has ended
            found = [json.loads(each.json) for each in read(crawl.bench.output)]
            assert [(str(each["n"]), each["text"]) for each in found] == [(str(n), "text") for n in range(30)]
            crawl.committed = sink.finish()
        sink.close()
        crawl.bench.remove()
        with pytest.raises(Misconfigured):
            list(read(crawl.bench.output))


class CheckpointedSinkContract:
    """The contract of `CheckpointedSink`, for sinks whose factory has `open_checkpointed`."""

    def open(self, bench: SinkBench, *, overwrite: bool = False) -> CheckpointedSink:
        factory = resolve(bench.output).factory
        assert factory.open_checkpointed is not None
        return factory.open_checkpointed(bench.output, fsync=False, overwrite=overwrite)

    def test_the_position_is_stored_with_the_items(self, bench: SinkBench) -> None:
        sink = self.open(bench)
        assert sink.last_flush() is None
        sink.restore(None)
        sink.flush(b"start")
        sink.write(items(range(3)))
        checkpoint = sink.flush(b"three")
        sink.write(items(range(3, 5)))
        sink.close()  # without a flush, as if killed

        again = self.open(bench)
        last = again.last_flush()
        assert last is not None
        assert (last.checkpoint, last.position) == (checkpoint, b"three")
        again.restore(last.checkpoint)
        again.write(items(range(3, 6)))
        again.finish(b"six")
        again.close()

        assert [fields["n"] for fields in bench.read()] == list(range(6))

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_a_writer_that_was_replaced_changes_nothing(self, bench: SinkBench, overwrite: bool) -> None:
        first, late = self.open(bench, overwrite=overwrite), self.open(bench, overwrite=overwrite)
        assert first.last_flush() is late.last_flush() is None
        first.restore(None)
        first.write([item(1)])
        first.flush(b"one")

        with pytest.raises(Unavailable):
            late.restore(None)
        late.close()
        second = self.open(bench, overwrite=overwrite)
        last = second.last_flush()
        assert last is not None
        second.restore(last.checkpoint)
        second.write([item(2)])
        second.flush(b"two")
        first.write([item(3)])
        with pytest.raises(Unavailable):
            first.flush(b"three")
        first.close()
        second.finish(b"two")
        second.close()

        assert [fields["n"] for fields in bench.read()] == [1, 2]


def _kill_after(commits: int, bench: SinkBench, store: Path) -> None:
    """Kill a process that writes the output after a number of commits."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_write_until_killed, args=(bench, store, sender), daemon=True)
    process.start()
    sender.close()
    try:
        for _ in range(commits):
            assert receiver.poll(PROCESS_TIMEOUT_S), "the process does not write"
            receiver.recv()
    finally:
        process.kill()
        process.join(PROCESS_TIMEOUT_S)
        process.close()
        receiver.close()


def _write_until_killed(bench: SinkBench, store: Path, commits: Any) -> None:
    """Write without end, committing to a file that replaces the store."""
    count, committed = _read_store(store)
    crawl = SinkCrawl(bench, committed)

    def commit() -> None:
        assert crawl.committed is not None
        draft = store.with_suffix(".draft")
        draft.write_bytes(count.to_bytes(8) + crawl.committed)
        draft.replace(store)
        commits.send(count)

    sink = crawl.resume()
    commit()
    while True:
        batch = random.randint(1, 5)
        sink.write(items(range(count, count + batch)))
        crawl.committed = sink.flush() if random.random() < 0.9 else sink.finish()
        count += batch
        commit()


def _read_store(store: Path) -> tuple[int, bytes | None]:
    if not store.exists():
        return 0, None
    stored = store.read_bytes()
    return int.from_bytes(stored[:8]), stored[8:]
