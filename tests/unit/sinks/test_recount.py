"""Outputs, counted again from outside."""

from pathlib import Path

import msgspec
import pytest

from shoal.model.errors import Rejected
from shoal.model.page import Item
from shoal.sinks import Sinks
from shoal.sinks.recount import outputs, recount

ITEMS = [
    Item(f"{number}", msgspec.json.encode({"n": number, "text": 'a "quoted"\nline, with comma'}))
    for number in range(7)
]
WIDER = [Item("w", msgspec.json.encode({"n": 7, "more": 1}))]


def written(path: Path) -> bytes:
    sinks = Sinks([str(path)])
    sinks.restore(None)
    sinks.write(ITEMS)
    sinks.flush()
    sinks.write(WIDER)
    checkpoint = outputs(sinks.finish())[str(path)]
    sinks.close()
    return checkpoint


@pytest.mark.parametrize("name", ["items.jsonl", "items.ndjson", "items.csv"])
def test_every_item_is_counted_and_what_lies_beyond_the_checkpoint_is_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    checkpoint = written(path)
    assert recount(path, checkpoint) == 8

    last = path if name != "items.csv" else tmp_path / "items-2.csv"
    with last.open("ab") as file:
        file.write(b'torn,"or {half')
    assert recount(path, checkpoint) == 8


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv"])
def test_an_output_without_items_has_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    sinks = Sinks([str(path)])
    sinks.restore(None)
    checkpoint = outputs(sinks.finish())[str(path)]
    sinks.close()
    assert recount(path, checkpoint) == 0


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv"])
def test_a_shorter_output_is_noticed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    checkpoint = written(path)
    last = path if name == "items.jsonl" else tmp_path / "items-2.csv"
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(Rejected, match="shorter than this crawl has left it"):
        recount(path, checkpoint)


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv", "items.sqlite"])
def test_an_output_that_is_gone_is_noticed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    checkpoint = written(path)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(Rejected, match=r"gone|cannot be read: No such file"):
        recount(path, checkpoint)


def test_a_line_that_does_not_end_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    checkpoint = written(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b" "))
    with pytest.raises(Rejected, match="ends within an item"):
        recount(path, checkpoint)


def test_a_database_is_there_but_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "items.sqlite"
    assert recount(path, written(path)) is None


def test_what_went_to_standard_output_cannot_be_looked_at() -> None:
    assert outputs(msgspec.msgpack.encode({"-": b"", "/a.jsonl": b"\x00"})) == {"/a.jsonl": b"\x00"}
    assert outputs(None) == {}
