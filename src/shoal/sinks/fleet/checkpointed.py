"""Outputs that remember, with what they hold, how far their writer had read.

A note is kept in one step with the items that led to it: a table has it in the same transaction. A file has
it beside itself, in `<file>.shoal`, together with the sink's checkpoint, written after the flush and put in
place by a rename: after a kill between the two the file is longer than the note knows, and is cut back.

Whoever holds the lock of that small file is the only process of this machine that writes the output. A
process that is stopped keeps it: nobody can write meanwhile, and it cannot wake up and write into somebody
else's work. A lock does not reach beyond a machine, nor surely across network file systems.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

import msgspec

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks.files import lock, sync_folder, translated
from shoal.sinks.names import STDOUT, is_database
from shoal.sinks.registry import Sink, open_postgres, open_sink


class SinkNote(msgspec.Struct, frozen=True):
    owner: str  # which crawl of which store
    positions: dict[int, str]  # by shard: the last entry of its stream that is in the output


class CheckpointedSink(Protocol):
    """A sink that keeps a note with every flush."""

    def kept(self) -> tuple[bytes, bytes] | None: ...
    def restore(self, checkpoint: bytes | None) -> None: ...
    def write(self, items: Sequence[Item]) -> None: ...
    def flush(self, note: bytes) -> bytes: ...
    def finish(self, note: bytes) -> bytes: ...
    def close(self) -> None: ...


def open_checkpointed(output: str, *, fsync: bool = False, overwrite: bool = False) -> CheckpointedSink:
    """Choose the sink for an output of a fleet; nothing is touched before `kept`."""
    if output == STDOUT:
        raise Misconfigured("output -: a fleet has no standard output; name a file or a database")
    if is_database(output):
        return open_postgres(output, overwrite=overwrite)
    return CheckpointedFile(open_sink(output, fsync=fsync, overwrite=overwrite), Path(output), fsync=fsync)


def peek(output: str) -> tuple[bytes, SinkNote] | None:
    """Read the checkpoint and the note of the last flush beside whoever writes; None: there is none."""
    if is_database(output):
        with closing(open_postgres(output)) as sink:
            kept = sink.kept()
    else:
        kept = _read(_beside(Path(output)))
    return None if kept is None else (kept[0], msgspec.msgpack.decode(kept[1], type=SinkNote))


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".shoal")


def _read(path: Path) -> tuple[bytes, bytes] | None:
    with translated(path):
        try:
            kept = msgspec.msgpack.decode(path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            raise Misconfigured(f"output {path}: not written by Shoal; move it away") from None
    return kept.checkpoint, kept.note


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    checkpoint: bytes
    note: bytes


class CheckpointedFile:
    """A sink on this machine, with its note beside it."""

    def __init__(self, sink: Sink, path: Path, *, fsync: bool) -> None:
        self._sink = sink
        self._fsync = fsync
        self._path = _beside(path)
        self._lock = -1

    def kept(self) -> tuple[bytes, bytes] | None:
        """Take the lock, and return the checkpoint and the note of the last flush; None: there was none."""
        if self._lock < 0:
            self._take_lock()
        return _read(self._path)

    def restore(self, checkpoint: bytes | None) -> None:
        """Restore the sink."""
        self._sink.restore(checkpoint)

    def write(self, items: Sequence[Item]) -> None:
        """Take items in."""
        self._sink.write(items)

    def flush(self, note: bytes) -> bytes:
        """Flush the sink, then keep the note."""
        return self._keep(self._sink.flush(), note)

    def finish(self, note: bytes) -> bytes:
        """Finish the sink, then keep the note."""
        return self._keep(self._sink.finish(), note)

    def close(self) -> None:
        """Close the sink and let go of the lock."""
        self._sink.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _take_lock(self) -> None:
        # Not on the note, which gets replaced, but on a file that stays.
        beside = self._path.with_name(self._path.name + ".lock")
        with translated(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                lock(self._lock, self._path)
            except Misconfigured:
                self.close()
                raise Unavailable(
                    f"output {self._path}: a process of this machine is writing it, or was stopped in it"
                ) from None

    def _keep(self, checkpoint: bytes, note: bytes) -> bytes:
        with translated(self._path):
            draft = self._path.with_name(self._path.name + ".draft")
            with draft.open("wb") as file:
                file.write(msgspec.msgpack.encode(_Kept(checkpoint, note)))
                if self._fsync:
                    file.flush()
                    os.fsync(file.fileno())
            draft.replace(self._path)
            if self._fsync:
                sync_folder(self._path.parent)
        return checkpoint
