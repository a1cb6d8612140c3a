"""Outputs that keep a note of how far their writer had read."""

from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks.fleet.checkpointed import CheckpointedSink, open_checkpointed

NAMES = ("out.jsonl", "out.csv", "out.sqlite", "out.parquet")


def begun(path: Path, *, fsync: bool = False) -> CheckpointedSink:
    sink = open_checkpointed(str(path), fsync=fsync)
    kept = sink.kept()
    sink.restore(None if kept is None else kept[0])
    return sink


@pytest.mark.parametrize("name", NAMES)
def test_the_note_of_the_last_flush_comes_back_with_the_output_as_it_was(name: str, tmp_path: Path) -> None:
    sink = begun(tmp_path / name, fsync=True)
    assert sink.kept() is None
    sink.write([Item("a", b'{"n": 1}')])
    checkpoint = sink.flush(b"one")
    sink.write([Item("b", b'{"n": 2}')])
    sink.close()  # without a flush, as if killed

    again = begun(tmp_path / name)
    assert again.kept() == (checkpoint, b"one")
    again.write([Item("c", b'{"n": 3}')])
    finished = again.finish(b"two")
    again.close()

    last = begun(tmp_path / name)
    assert last.kept() == (finished, b"two")
    last.close()


def test_a_file_has_one_writer_and_the_next_has_to_wait(tmp_path: Path) -> None:
    first = begun(tmp_path / "out.jsonl")
    second = open_checkpointed(str(tmp_path / "out.jsonl"))

    with pytest.raises(Unavailable, match="a process of this machine is writing it"):
        second.kept()
    first.close()
    assert second.kept() is None
    second.close()


def test_a_note_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.shoal").write_text("dear diary")
    sink = open_checkpointed(str(tmp_path / "out.jsonl"))

    with pytest.raises(Misconfigured, match="not written by Shoal"):
        sink.kept()
    sink.close()


def test_a_fleet_has_no_standard_output() -> None:
    with pytest.raises(Misconfigured, match="a fleet has no standard output"):
        open_checkpointed("-")
