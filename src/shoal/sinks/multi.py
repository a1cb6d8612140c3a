"""Several outputs at once, under one checkpoint."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import msgspec

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks.contract import Sink
from shoal.sinks.names import canonical_name
from shoal.sinks.registry import open_sink


class MultiSink:
    """Writes every item to several outputs.

    An output that is added to a crawl later gets the items that are extracted from then on. One that is
    left out for a run keeps its part of the checkpoint, and continues from there when it is used again.
    """

    def __init__(self, outputs: Iterable[str], *, fsync: bool = False, overwrite: bool = False) -> None:
        self._sinks: dict[str, Sink] = {}
        for output in outputs:
            name = canonical_name(output)
            if name in self._sinks:
                raise Misconfigured(f"output {name!r} is given twice")
            self._sinks[name] = open_sink(output, fsync=fsync, overwrite=overwrite)
        self._checkpoints: dict[str, bytes] = {}

    def restore(self, checkpoint: bytes | None) -> None:
        """Restore each sink to its part of the checkpoint."""
        known = {} if checkpoint is None else msgspec.msgpack.decode(checkpoint, type=dict[str, bytes])
        self._checkpoints = dict(known)
        for name, sink in self._sinks.items():
            sink.restore(known.get(name))

    def write(self, items: Sequence[Item]) -> None:
        """Write items to every sink."""
        for sink in self._sinks.values():
            sink.write(items)

    def flush(self) -> bytes:
        """Flush every sink. If one raises, its items stay buffered, and the next call flushes them."""
        for name, sink in self._sinks.items():
            self._checkpoints[name] = sink.flush()
        return msgspec.msgpack.encode(self._checkpoints)

    def finish(self) -> bytes:
        """Finish every sink."""
        for name, sink in self._sinks.items():
            self._checkpoints[name] = sink.finish()
        return msgspec.msgpack.encode(self._checkpoints)

    def close(self) -> None:
        """Close every sink, even if closing one of them raises."""
        with ExitStack() as stack:
            for sink in self._sinks.values():
                stack.callback(sink.close)
