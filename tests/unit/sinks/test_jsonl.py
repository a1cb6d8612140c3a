import errno
import os
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks import MultiSink, open_sink
from shoal.sinks.jsonl import JsonlSink, LinesCheckpoint


def test_lines_are_the_bytes_of_the_items(tmp_path: Path) -> None:
    odd = [b'{"a":"=cmd|calc"}', b'{"b":"\\u0000 \xf0\x9f\x90\x9f"}', b'{"c": 1.0 }', b"{}"]
    sink = open_sink(str(tmp_path / "x.jsonl"))
    sink.restore(None)
    sink.write([Item("k", line) for line in odd])
    sink.finish()
    sink.close()

    assert (tmp_path / "x.jsonl").read_bytes() == b"\n".join(odd) + b"\n"


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_a_full_disk_loses_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = 10
    genuine = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if offset >= room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(descriptor, data[: room - offset], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    sink = open_sink(str(tmp_path / name))
    sink.restore(None)
    sink.write([Item("1", b'{"a":"the first item"}')])
    with pytest.raises(Unavailable, match=rf"output .*{name}: No space left"):
        sink.flush()
    sink.write([Item("2", b'{"a":"the second item"}')])

    monkeypatch.undo()
    sink.flush()
    sink.close()

    written = (tmp_path / name).read_text()
    assert written.count("the first item") == written.count("the second item") == 1
    assert written.index("first") < written.index("second")


def test_syncing_covers_the_file_and_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name))
    sink = open_sink(str(tmp_path / "x.jsonl"), fsync=True)
    sink.restore(None)
    sink.write([Item("1", b"{}")])
    sink.flush()
    sink.close()

    assert synced == ["x.jsonl", tmp_path.name, "x.jsonl"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet"])
def test_a_second_crawl_cannot_open_the_output(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    first = open_sink(path)
    first.restore(None)

    with pytest.raises(Misconfigured, match="another crawl"):
        open_sink(path, overwrite=True).restore(None)

    first.close()
    second = open_sink(path)
    second.restore(None)
    second.close()


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.db", "x.parquet"])
def test_the_error_for_an_unwritable_path_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(Misconfigured, match=rf"output .*file/{name}: "):
        open_sink(str(tmp_path / "file" / name)).restore(None)


def test_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    os.mkfifo(tmp_path / "y.jsonl")

    for name in ("x.jsonl", "y.jsonl"):
        with pytest.raises(Misconfigured, match=name):
            open_sink(str(tmp_path / name)).restore(None)


# Standard output


class Pipe:
    """Replace standard output by a pipe."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()
        self.reader = os.fdopen(reading, "rb")
        self.stdout = os.fdopen(writing, "w")
        monkeypatch.setattr(sys, "stdout", self.stdout)


def test_items_are_lines_on_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    sink = open_sink("-")
    sink.restore(None)
    sink.write([Item("1", b'{"a":1}'), Item("2", b'{"a":2}')])
    sink.finish()
    sink.close()
    pipe.stdout.close()

    assert pipe.reader.read() == b'{"a":1}\n{"a":2}\n'
    pipe.reader.close()


def test_flush_waits_for_a_slow_reader_of_a_non_blocking_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = Pipe(monkeypatch)
    os.set_blocking(pipe.stdout.fileno(), False)
    sink = open_sink("-")
    lines = [Item(str(n), b"x" * 1000) for n in range(500)]
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.reader.read()))
    sink.write(lines)
    reader.start()

    sink.flush()
    pipe.stdout.close()
    reader.join()

    assert read == [b"".join(line.json + b"\n" for line in lines)]
    pipe.reader.close()


def test_a_closed_pipe_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    pipe.reader.close()
    sink = open_sink("-")
    sink.write([Item("1", b"{}")])

    with pytest.raises(Misconfigured, match="output -: Broken pipe"):
        sink.flush()
    pipe.stdout.close()


# Several outputs


def test_an_output_that_is_added_later_gets_later_items(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    sinks = MultiSink([str(one)])
    sinks.restore(None)
    sinks.write([Item("1", b"1")])
    checkpoint = sinks.flush()
    sinks.close()

    both = MultiSink([str(one), str(two)])
    both.restore(checkpoint)
    both.write([Item("2", b"2")])
    both.finish()
    both.close()

    assert (one.read_bytes(), two.read_bytes()) == (b"1\n2\n", b"2\n")


def test_an_output_that_is_left_out_for_a_run_continues_where_it_stopped(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    checkpoint = None
    for number, paths in enumerate([[one, two], [one], [one, two]]):
        sinks = MultiSink(map(str, paths))
        sinks.restore(checkpoint)
        sinks.write([Item("k", str(number).encode())])
        checkpoint = sinks.flush()
        sinks.close()

    assert (one.read_bytes(), two.read_bytes()) == (b"0\n1\n2\n", b"0\n2\n")


def test_a_full_disk_does_not_duplicate_items_in_another_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    sinks = MultiSink(map(str, paths))
    sinks.restore(None)
    sinks.write([Item("1", b"1")])
    genuine = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("two.jsonl"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(Unavailable):
        sinks.flush()
    monkeypatch.undo()

    sinks.flush()
    sinks.close()

    assert [path.read_bytes() for path in paths] == [b"1\n", b"1\n"]


def test_the_lines_of_a_checkpoint_of_an_earlier_version_are_counted(tmp_path: Path) -> None:
    (path := tmp_path / "x.jsonl").write_bytes(b"{}\n{}\n{}\n")
    sink = JsonlSink(path, fsync=False, overwrite=False)
    sink.restore(msgspec.msgpack.encode(6))

    assert LinesCheckpoint.load(sink.flush()).lines == 2
    sink.close()
