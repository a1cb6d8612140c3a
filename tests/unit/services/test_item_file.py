"""Reading an output while it is written."""

import json
from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured
from shoal.services.item_file import ItemReader, is_item_file, read_items


def append(path: Path, *numbers: int) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps({"n": number}) + "\n" for number in numbers)


def rest(reader: ItemReader) -> list[int]:
    found = []
    while (item := reader.read()) is not None:
        found.append(item["n"])
    return found


def test_a_reader_continues_after_the_last_item_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    append(path, 1, 2, 3)
    first = ItemReader(path, buffer=10, resume=True)
    assert [first.read(), first.read()] == [{"n": 1}, {"n": 2}]
    first.save()
    append(path, 4)

    assert rest(ItemReader(path, buffer=10, resume=True)) == [3, 4]
    assert rest(ItemReader(path, buffer=10, resume=False)) == [1, 2, 3, 4]
    assert rest(ItemReader(path, buffer=10, resume=True)) == [1, 2, 3, 4]  # that one started anew


def test_half_a_line_is_not_an_item(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    append(path, 1)
    with path.open("a") as file:
        file.write('{"n": ')
    reader = ItemReader(path, buffer=10, resume=True)

    assert rest(reader) == [1]
    with path.open("a") as file:
        file.write("2}\n")
    assert rest(reader) == [2]


def test_an_item_that_is_longer_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps({"n": "x" * 600_000}) + "\n")

    assert ItemReader(path, buffer=10, resume=True).read() == {"n": "x" * 600_000}
    assert [len(item["n"]) for item in read_items(path)] == [600_000]


def test_nothing_is_left_out_of_a_file_that_was_cut_back_or_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    append(path, 1, 2, 3)
    reader = ItemReader(path, buffer=10, resume=True)
    assert rest(reader) == [1, 2, 3]
    reader.save()

    length = len(path.read_bytes()) * 2 // 3
    path.write_bytes(path.read_bytes()[:length])  # as a resumed crawl does: the third is extracted again
    cut = ItemReader(path, buffer=10, resume=True)
    assert rest(cut) == []
    append(path, 3)
    assert rest(cut) == [3]

    path.unlink()
    append(path, 7, 8, 9, 10)
    assert rest(ItemReader(path, buffer=10, resume=True)) == [7, 8, 9, 10]


def test_a_reader_is_behind_when_more_items_wait_than_its_buffer_holds(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    reader = ItemReader(path, buffer=2, resume=True)
    assert not reader.is_behind()
    append(path, 1, 2, 3)
    while not reader.is_behind():  # it looks every few milliseconds
        pass
    assert reader.read() == {"n": 1}
    assert not reader.is_behind()


def test_a_cursor_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    append(path, 1)
    path.with_name("items.jsonl.cursor").write_text("something else")

    with pytest.raises(Misconfigured, match="move it away"):
        ItemReader(path, buffer=2, resume=True)


@pytest.mark.parametrize(
    ("output", "is_file"),
    [
        ("a.jsonl", True),
        ("A.NDJSON", True),
        ("a.csv", False),
        ("-", False),
        ("postgresql://h/d.jsonl", False),
    ],
)
def test_only_files_of_lines_are_read(output: str, is_file: bool) -> None:
    assert is_item_file(output) is is_file
