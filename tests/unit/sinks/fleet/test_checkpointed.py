"""Outputs that store the position of their writer."""

from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks.contract import CheckpointedSink, LastFlush, SinkFactory
from shoal.sinks.fleet.checkpointed import check_fleet_output, open_checkpointed
from shoal.sinks.jsonl import JsonlSink
from shoal.sinks.registry import ResolvedOutput, resolve

NAMES = ("out.jsonl", "out.csv", "out.sqlite", "out.parquet", "out.parquet/")


def open_restored(path: Path | str, *, fsync: bool = False) -> CheckpointedSink:
    sink = open_checkpointed(resolve(str(path)), fsync=fsync)
    last = sink.last_flush()
    sink.restore(None if last is None else last.checkpoint)
    return sink


@pytest.mark.parametrize("name", NAMES)
def test_the_position_of_the_last_flush_is_restored_with_the_output(name: str, tmp_path: Path) -> None:
    sink = open_restored(f"{tmp_path}/{name}", fsync=True)
    assert sink.last_flush() is None
    sink.write([Item("a", b'{"n": 1}')])
    checkpoint = sink.flush(b"one")
    sink.write([Item("b", b'{"n": 2}')])
    sink.close()  # without a flush, as if killed

    again = open_restored(f"{tmp_path}/{name}")
    assert again.last_flush() == LastFlush(checkpoint, b"one")
    again.write([Item("c", b'{"n": 3}')])
    finished = again.finish(b"two")
    again.close()

    last = open_restored(f"{tmp_path}/{name}")
    assert last.last_flush() == LastFlush(finished, b"two")
    last.close()


def test_a_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    first = open_restored(tmp_path / "out.jsonl")
    second = open_checkpointed(resolve(str(tmp_path / "out.jsonl")))

    with pytest.raises(Unavailable, match="another process of this machine is writing it"):
        second.last_flush()
    first.close()
    assert second.last_flush() is None
    second.close()


def test_a_file_in_the_place_of_the_checkpoint_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.shoal").write_text("dear diary")
    sink = open_checkpointed(resolve(str(tmp_path / "out.jsonl")))

    with pytest.raises(Misconfigured, match="not written by Shoal"):
        sink.last_flush()
    sink.close()


def test_a_fleet_has_no_standard_output() -> None:
    with pytest.raises(Misconfigured, match="a fleet has no standard output"):
        open_checkpointed(resolve("-"))
    with pytest.raises(Misconfigured, match="a fleet has no standard output"):
        check_fleet_output("-")


def test_an_address_whose_sink_stores_no_checkpoint_cannot_be_written_by_a_fleet() -> None:
    plain = ResolvedOutput("mydb://me:secret@host/books", SinkFactory(open=JsonlSink, shared=True))

    with pytest.raises(Misconfigured, match="does not store checkpoints") as caught:
        open_checkpointed(plain)
    assert "secret" not in str(caught.value)


def test_a_fleet_spells_a_file_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert check_fleet_output("items/a.jsonl") == str(tmp_path / "items" / "a.jsonl")
    assert check_fleet_output("postgresql://me@host/db?table=t") == "postgresql://me@host/db?table=t"


@pytest.mark.parametrize("output", ["out.xlsx", "mysql://me:secret@host/db"])
def test_an_output_without_a_sink_is_refused_when_a_crawl_is_submitted(output: str) -> None:
    with pytest.raises(Misconfigured, match="known: ") as caught:
        check_fleet_output(output)
    assert "secret" not in str(caught.value)
