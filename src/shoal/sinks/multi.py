"""Several outputs at once, under one checkpoint."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import msgspec

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks.names import name_of
from shoal.sinks.registry import Sink, open_sink


class MultiSink:
    """A sink made of sinks; every item goes to all of them.

    An output that joins a crawl later gets what is extracted from then on. One that is left out for a run is
    remembered, and can go on where it stopped.
    """

    def __init__(self, paths: Iterable[str], *, fsync: bool = False, overwrite: bool = False) -> None:
        self._sinks: dict[str, Sink] = {}
        for path in paths:
            name = name_of(path)
            if name in self._sinks:
                raise Misconfigured(f"output {name!r} is given twice")
            self._sinks[name] = open_sink(path, fsync=fsync, overwrite=overwrite)
        self._checkpoints: dict[str, bytes] = {}

    def restore(self, checkpoint: bytes | None) -> None:
        """Restore each sink to its part of the checkpoint."""
        known = {} if checkpoint is None else msgspec.msgpack.decode(checkpoint, type=dict[str, bytes])
        self._checkpoints = dict(known)
        for name, sink in self._sinks.items():
            sink.restore(known.get(name))

    def write(self, items: Sequence[Item]) -> None:
        """Hand items to every sink."""
        for sink in self._sinks.values():
            sink.write(items)

    def flush(self) -> bytes:
        """Flush every sink. One that raises keeps its items; the others have nothing left to flush then."""
        for name, sink in self._sinks.items():
            self._checkpoints[name] = sink.flush()
        return msgspec.msgpack.encode(self._checkpoints)

    def finish(self) -> bytes:
        """Finish every sink."""
        for name, sink in self._sinks.items():
            self._checkpoints[name] = sink.finish()
        return msgspec.msgpack.encode(self._checkpoints)

    def close(self) -> None:
        """Close every sink, even if one of them fails at it."""
        with ExitStack() as stack:
            for sink in self._sinks.values():
                stack.callback(sink.close)
