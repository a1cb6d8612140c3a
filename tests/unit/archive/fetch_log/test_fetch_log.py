"""The fetch log: what is written can be read, after a kill as well, with and without Parquet."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from shoal.archive.fetch_log import COLUMNS, FetchLogReader, FetchLogWriter, LoggedAttempt, Row, open_parts
from shoal.archive.fetch_log import writer as writer_module
from shoal.archive.fetch_log.blocks import Block, blocks_in, encode_block
from shoal.archive.fetch_log.columns import DEFAULTS
from shoal.archive.segments import SegmentFolder

DAY = 86_400_000_000  # in microseconds
NOON = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()) * 1_000_000
MIB = 1 << 20


def row(number: int, *, at: int = NOON, **values: object) -> Row:
    given = {
        "started_at": at + number,
        "crawl": "books",
        "fingerprint": number,
        "url": f"http://a.test/{number}",
        "host": "a.test",
        "status": 200,
        "outcome": "done",
        "worker": "w",
        "total_ms": 1.5,
        **values,
    }
    return tuple({**DEFAULTS, **given}.values())


def opened(folder: Path, *, part_bytes: int = MIB, keep_days: int = 0) -> FetchLogWriter:
    return FetchLogWriter(
        open_parts(SegmentFolder(folder)),
        "books",
        part_bytes=part_bytes,
        keep_days=keep_days,
        today=lambda: date(2026, 11, 17),
    )


def reader(folder: Path) -> FetchLogReader:
    return FetchLogReader(SegmentFolder(folder))


def numbers(folder: Path) -> list[int]:
    return [found.fingerprint for found in reader(folder).attempts(range(1000))]


@pytest.fixture(params=["parquet", "core"])
def format(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the extra `parquet`, and without it."""

    def never(size: int) -> None:
        return None

    def always(size: int) -> Callable[[Iterator[Block]], bytes]:
        from shoal.archive.fetch_log.parquet import write_parquet

        return write_parquet

    monkeypatch.setattr(writer_module, "parquet_writer", always if request.param == "parquet" else never)
    return str(request.param)


def suffixes(folder: Path) -> list[str]:
    return sorted(path.suffix for path in (folder / "attempts").iterdir())


def test_a_block_holds_every_value() -> None:
    rows = [
        row(1),
        row(
            2, reason="Größe", url="http://a.test/ü", item_keys="a\nb", host="b.test", found_on=(1 << 63) - 1
        ),
        row(3, status=503, outcome="retry", failure="target_error", queue_ms=0.5, wire_bytes=1 << 40),
    ]

    [block] = blocks_in(encode_block(rows))

    assert block.all() == rows
    assert [found.fingerprint for found in block.select([3, 1, 7])] == [1, 3]


def test_text_that_no_file_can_hold_is_replaced() -> None:
    [block] = blocks_in(encode_block([row(1, reason="a\ud800b", url="http://a.test/\ud800")]))

    [found] = block.select([1])
    assert (found.reason, found.url) == ("a?b", "http://a.test/?")


def test_a_column_of_another_version_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.archive.fetch_log import blocks
    from shoal.archive.fetch_log.parquet import table_of

    fewer = {name: kind for name, kind in COLUMNS.items() if name not in ("exit", "tls_ms")}
    monkeypatch.setattr(blocks, "COLUMNS", fewer)
    older = encode_block([tuple(v for v, n in zip(row(1), COLUMNS, strict=True) if n in fewer)])
    monkeypatch.undo()

    [block] = blocks_in(older)
    [found] = block.select([1])
    assert (found.exit, found.tls_ms, found.url) == ("", 0.0, "http://a.test/1")
    assert table_of(block).column("tls_ms").to_pylist() == [0.0]


@pytest.mark.parametrize("cut", [1, 5, 11, 40])
def test_a_block_that_was_cut_off_costs_only_itself(cut: int) -> None:
    whole, torn = encode_block([row(1), row(2)]), encode_block([row(3)])

    assert [block.rows for block in blocks_in(whole + torn[:-cut])] == [2]
    assert [block.rows for block in blocks_in(whole + torn[:cut])] == [2]


def test_a_damaged_block_is_not_returned() -> None:
    data = bytearray(encode_block([row(number) for number in range(50)]))
    data[len(data) // 2] ^= 0xFF

    assert list(blocks_in(bytes(data))) == []


def test_rows_are_read_while_the_part_grows_and_when_it_is_complete(tmp_path: Path, format: str) -> None:
    log = opened(tmp_path)
    log.write([row(1)])
    log.write([row(2, status=404, outcome="gone")])
    assert suffixes(tmp_path) == [".log"]
    before = reader(tmp_path).attempts([1, 2])

    log.finish()

    assert suffixes(tmp_path) == [".parquet" if format == "parquet" else ".attempts"]
    assert reader(tmp_path).attempts([1, 2]) == before
    assert [(found.status, found.url) for found in before] == [
        (200, "http://a.test/1"),
        (404, "http://a.test/2"),
    ]


def test_a_part_ends_when_it_is_large_enough_or_the_day_changes(tmp_path: Path, format: str) -> None:
    log = opened(tmp_path, part_bytes=1)
    log.write([row(1)])
    log.write([row(2)])
    log.finish()
    log = opened(tmp_path)
    log.write([row(3)])
    log.write([row(4, at=NOON + DAY)])
    log.finish()

    names = [(name.day, name.number) for name in reader(tmp_path).parts()]
    today, tomorrow = date(2026, 11, 17), date(2026, 11, 18)
    assert names == [(today, 1), (today, 2), (today, 3), (tomorrow, 1)]
    assert numbers(tmp_path) == [1, 2, 3, 4]


def test_a_part_that_a_kill_has_left_is_completed_by_the_next_run(tmp_path: Path, format: str) -> None:
    killed = opened(tmp_path)
    killed.write([row(1)])
    [part] = (tmp_path / "attempts").iterdir()
    part.write_bytes(part.read_bytes() + encode_block([row(9)])[:-3])  # cut off in the middle of a write
    assert numbers(tmp_path) == [1]

    log = opened(tmp_path)
    log.write([row(2)])
    log.finish()

    assert numbers(tmp_path) == [1, 2]
    assert ".log" not in suffixes(tmp_path)


def test_a_kill_while_a_part_is_completed_neither_loses_nor_doubles_rows(tmp_path: Path, format: str) -> None:
    """The complete part is half written, and the one that has grown is still there."""
    killed = opened(tmp_path)
    killed.write([row(1)])
    [part] = (tmp_path / "attempts").iterdir()
    complete = part.with_suffix(".parquet" if format == "parquet" else ".attempts")
    complete.write_bytes(b"PAR1 half of it" + os.urandom(10_000))
    assert numbers(tmp_path) == [1]

    log = opened(tmp_path)
    log.write([row(2)])
    log.finish()

    assert numbers(tmp_path) == [1, 2]


def test_parts_older_than_their_retention_are_deleted(tmp_path: Path) -> None:
    old = opened(tmp_path)
    old.write([row(1, at=NOON - 5 * DAY)])
    old.finish()

    log = opened(tmp_path, keep_days=3)
    log.write([row(2)])
    log.finish()

    assert numbers(tmp_path) == [2]


def test_processes_of_one_crawl_write_apart(tmp_path: Path) -> None:
    for number, worker in enumerate(("one", "two")):
        log = FetchLogWriter(open_parts(SegmentFolder(tmp_path)), "books", writer=worker, part_bytes=MIB)
        log.write([row(number)])
    assert numbers(tmp_path) == [0, 1]


def test_a_row_takes_less_than_sixty_bytes() -> None:
    """Of a crawl whose pages differ in every value that can differ; text as on a shop."""
    import random

    from shoal.archive.fetch_log.parquet import write_parquet
    from shoal.archive.fetch_log.writer import packed_again

    dice = random.Random(7)
    rows, offset = [], 0
    for number in range(4_000):
        offset += dice.randrange(2_500, 5_000)
        rows.append(
            row(
                dice.getrandbits(63),
                at=NOON + number * 700,
                found_on=number // 20,
                url=f"https://shop.example/catalogue/{dice.getrandbits(40)}/index.html",
                worker="crawler-1-4711-ab12",
                total_ms=round(dice.expovariate(0.01), 1),
                first_byte_ms=round(dice.expovariate(0.01), 1),
                body_ms=round(dice.expovariate(0.1), 1),
                wire_bytes=dice.randrange(8_000, 40_000),
                body_bytes=dice.randrange(8_000, 40_000),
                segment="books-20261117-00001.warc.gz",
                offset=offset,
                length=dice.randrange(2_500, 5_000),
                links=dice.randrange(30),
            )
        )
    blocks = list(blocks_in(b"".join(encode_block(rows[at : at + 100]) for at in range(0, len(rows), 100))))

    assert len(write_parquet(iter(blocks))) / len(rows) < 60
    assert len(packed_again(iter(blocks))) / len(rows) < 60


def test_every_column_is_described_by_the_struct() -> None:
    assert list(COLUMNS) == list(LoggedAttempt.__struct_fields__)


def test_writing_parquet_does_not_load_pandas() -> None:
    program = (
        "import sys\n"
        "from shoal.archive.fetch_log.blocks import blocks_in, encode_block\n"
        "from shoal.archive.fetch_log.columns import DEFAULTS\n"
        "from shoal.archive.fetch_log.parquet import write_parquet\n"
        "write_parquet(blocks_in(encode_block([tuple(DEFAULTS.values())] * 3)))\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
