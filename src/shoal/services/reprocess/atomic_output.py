"""An output that is replaced as a whole or not at all: written beside its place, then moved into it."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os.path import isdir  # False for a name that no file can have
from pathlib import Path

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks.contract import Sink
from shoal.sinks.files import translate_errors
from shoal.sinks.names import keep_slash
from shoal.sinks.registry import resolve

FLUSH_ITEMS = 4096  # items in memory before they are written


class AtomicOutput:
    """Writes items to a file of any known format."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting = 0
        self.count = 0

    def write(self, items: Sequence[Item]) -> None:
        self._sink.write(items)
        self.count += len(items)
        self._waiting += len(items)
        if self._waiting >= FLUSH_ITEMS:
            self._sink.flush()
            self._waiting = 0


@contextmanager
def replacing(out: str) -> Iterator[Path]:
    """Yield a path to write to. The file there replaces `out` after the block, unless it raises.

    A folder is never replaced: it may contain other files.
    """
    _refuse_folder(out)
    target = Path(out)
    with translate_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".shoal-draft-", dir=target.parent))
    try:
        yield folder / target.name
        with translate_errors(target):
            # A format of another package may write several files; `out` itself is moved last.
            for made in sorted(folder.iterdir(), key=lambda path: path.name == target.name):
                made.replace(target.parent / made.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing_items(out: str) -> Iterator[AtomicOutput]:
    """Open `out` for items, in the format of its suffix; `-` is standard output.

    What was written to standard output or to a database stays there after an error.
    """
    _refuse_folder(out)
    resolved = resolve(out)
    if not resolved.capabilities.is_file:
        yield from _write_items(resolved.factory.open(out, fsync=False, overwrite=False))
        return
    with replacing(out) as draft:
        path = keep_slash(out, str(draft))
        yield from _write_items(resolved.factory.open(path, fsync=False, overwrite=False))


def _refuse_folder(out: str) -> None:
    if isdir(out):
        raise Misconfigured(f"output {out}: there is a folder already; move it away or name another output")


def _write_items(sink: Sink) -> Iterator[AtomicOutput]:
    try:
        sink.restore(None)
        yield AtomicOutput(sink)
        sink.finish()
    finally:
        sink.close()
