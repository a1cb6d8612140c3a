"""Outputs that store the position of their writer together with the items.

The position is stored in one step with the items that precede it: a table has it in the same transaction.
For a file it is in a second file, `<file>.shoal`, together with the checkpoint of the sink. That file is
written after the flush and renamed into place: after a kill between the two, the output is longer than its
checkpoint says and is cut back.

The process that has locked `<file>.shoal.lock` is the only one on this machine that writes the output. A
suspended process keeps its lock: no other process writes until it ends, so it cannot wake up and overwrite
the work of a successor. A lock does not reach other machines, and is not reliable on network file systems.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks.contract import CheckpointedSink, LastFlush, Sink
from shoal.sinks.drafts import discard, draft_of, is_written, place_of, publish
from shoal.sinks.files import lock, sync_folder, translate_errors
from shoal.sinks.names import STDOUT, keep_slash
from shoal.sinks.registry import ResolvedOutput, is_known_file, resolve


class WriterPosition(msgspec.Struct, frozen=True):
    owner: str  # identifies one output of one crawl in one store
    positions: dict[int, str]  # by shard: the last entry of its stream that is in the output


def open_checkpointed(
    resolved: ResolvedOutput, *, fsync: bool = False, overwrite: bool = False
) -> CheckpointedSink:
    """Open the sink of an output of a fleet; nothing is touched before `last_flush`."""
    if not resolved.capabilities.is_file:
        return _open_at(resolved, resolved.output, fsync=fsync, overwrite=overwrite)
    opened = partial(_open_at, resolved, fsync=fsync, overwrite=overwrite)
    return ReplacingFile(resolved.output, opened, overwrite=overwrite)


def _open_at(resolved: ResolvedOutput, place: str, *, fsync: bool, overwrite: bool) -> CheckpointedSink:
    factory = resolved.factory
    if factory.open_checkpointed is not None:
        return factory.open_checkpointed(place, fsync=fsync, overwrite=overwrite)
    if not resolved.capabilities.is_file:
        raise unfit_for_fleet(resolved)
    return CheckpointedFile(factory.open(place, fsync=fsync, overwrite=overwrite), Path(place), fsync=fsync)


def unfit_for_fleet(resolved: ResolvedOutput) -> Misconfigured:
    """Return the error for an output that a fleet cannot write exactly once."""
    if resolved.output == STDOUT:
        return Misconfigured("output -: a fleet has no standard output; name a file or a database")
    return Misconfigured(
        f"output {resolved.name!r}: its sink does not store checkpoints, which a fleet needs;"
        " name a file or another database"
    )


def check_fleet_output(output: str) -> str:
    """Return an output as every machine of a fleet spells it: the absolute path of a file.

    Raise `Misconfigured` for an output that no fleet can write. What only this machine lacks is not an error:
    the packages that a format needs have to be installed on the workers.
    """
    if is_known_file(output):
        return keep_slash(output, str(Path(output).absolute()))
    if not (resolved := resolve(output)).capabilities.fleet:
        raise unfit_for_fleet(resolved)
    return output


def read_position(resolved: ResolvedOutput) -> tuple[bytes, WriterPosition] | None:
    """Read checkpoint and position of the last flush, without locking; None: there is no flush yet."""
    place = place_of(resolved.output)
    if resolved.factory.open_checkpointed is not None:
        with closing(_open_at(resolved, place, fsync=False, overwrite=False)) as sink:
            last = sink.last_flush()
    else:
        last = _read(_checkpoint_path(Path(place)))
    return None if last is None else (last.checkpoint, decode_position(last.position))


def decode_position(position: bytes) -> WriterPosition:
    return msgspec.msgpack.decode(position, type=WriterPosition)


def _checkpoint_path(path: Path) -> Path:
    return path.with_name(path.name + ".shoal")


def _read(path: Path) -> LastFlush | None:
    with translate_errors(path):
        try:
            stored = msgspec.msgpack.decode(path.read_bytes(), type=_StoredFlush)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            raise Misconfigured(f"output {path}: not written by Shoal; move it away") from None
    return LastFlush(stored.checkpoint, stored.position)


class _StoredFlush(msgspec.Struct, frozen=True, array_like=True):
    checkpoint: bytes
    position: bytes


class ReplacingFile:
    """An output on this machine that a new generation writes beside the old one (`sinks.drafts`)."""

    def __init__(self, output: str, opened: Callable[[str], CheckpointedSink], *, overwrite: bool) -> None:
        self._output = output
        self._opened = opened
        self._overwrite = overwrite
        self._sink: CheckpointedSink | None = None

    def last_flush(self) -> LastFlush | None:
        """Return the last flush of the draft, if there is one, else of the output."""
        if self._sink is None:
            draft = Path(draft_of(self._output))
            if _checkpoint_path(draft).exists() and not draft.exists():
                publish({self._output: str(draft)})  # the output was moved, and not its checkpoint
            self._sink = self._opened(place_of(self._output))
        return self._sink.last_flush()

    def restore(self, checkpoint: bytes | None) -> None:
        """Restore the output; one that exists is started again as a draft."""
        if checkpoint is None and self._overwrite and is_written(self._output):
            self.close()
            discard(draft := draft_of(self._output))
            self._sink = self._opened(draft)
            self._sink.last_flush()  # takes the lock
        self._current.restore(checkpoint)

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._current.write(items)

    def flush(self, position: bytes) -> bytes:
        """Flush the output and store the position."""
        return self._current.flush(position)

    def finish(self, position: bytes) -> bytes:
        """Finish the output and store the position."""
        return self._current.finish(position)

    def close(self) -> None:
        """Close the output."""
        if self._sink is not None:
            self._sink.close()

    @property
    def _current(self) -> CheckpointedSink:
        assert self._sink is not None, "last_flush first"
        return self._sink


class CheckpointedFile:
    """A sink on this machine, with its checkpoint in a file beside the output."""

    def __init__(self, sink: Sink, path: Path, *, fsync: bool) -> None:
        self._sink = sink
        self._fsync = fsync
        self._path = _checkpoint_path(path)
        self._lock = -1

    def last_flush(self) -> LastFlush | None:
        """Lock the output, and return its last flush; None: there is no flush yet."""
        if self._lock < 0:
            self._take_lock()
        return _read(self._path)

    def restore(self, checkpoint: bytes | None) -> None:
        """Restore the sink."""
        self._sink.restore(checkpoint)

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._sink.write(items)

    def flush(self, position: bytes) -> bytes:
        """Flush the sink, then store the position."""
        return self._store(self._sink.flush(), position)

    def finish(self, position: bytes) -> bytes:
        """Finish the sink, then store the position."""
        return self._store(self._sink.finish(), position)

    def close(self) -> None:
        """Close the sink and release the lock."""
        self._sink.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _take_lock(self) -> None:
        # Not on the checkpoint file, which is replaced, but on a file that stays.
        lock_path = self._path.with_name(self._path.name + ".lock")
        with translate_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                lock(self._lock, self._path)
            except Misconfigured:
                self.close()
                raise Unavailable(
                    f"output {self._path}: another process of this machine is writing it, or is suspended"
                ) from None

    def _store(self, checkpoint: bytes, position: bytes) -> bytes:
        with translate_errors(self._path):
            draft = self._path.with_name(self._path.name + ".draft")
            with draft.open("wb") as file:
                file.write(msgspec.msgpack.encode(_StoredFlush(checkpoint, position)))
                if self._fsync:
                    file.flush()
                    os.fsync(file.fileno())
            draft.replace(self._path)
            if self._fsync:
                sync_folder(self._path.parent)
        return checkpoint
