"""Outputs that replace earlier ones as a whole: written beside them, and moved into place at the end.

The draft of `items.csv` is `.items.csv.new/items.csv`, in the same folder and therefore on the same file
system. An output that holds nothing yet needs no draft, and a database has none: its rows are replaced by
key.

Moving is not atomic over several files, so it can be repeated: a draft that is gone while its output is there
was moved.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from shoal.model.errors import Misconfigured
from shoal.sinks.files import translate_errors
from shoal.sinks.names import STDOUT, canonical_name, is_address
from shoal.sinks.registry import resolve

UNFINISHED = "unfinished_outputs"
"""Name of the value in a crawl's state: set while a run writes outputs, empty once they are finished."""

DRAFTS = "drafts"
"""Name of the value in a crawl's state: the drafts of this generation, by canonical name of their output."""


def draft_of(output: str) -> str:
    """Return the path of an output's draft."""
    path = Path(output)
    return str(path.parent / f".{path.name}.new" / path.name)


def load_drafts(stored: bytes | None) -> dict[str, str]:
    """Return the drafts of a crawl, by the canonical name of their output."""
    return {} if stored is None else msgspec.json.decode(stored, type=dict[str, str])


def dump_drafts(drafts: Mapping[str, str]) -> bytes:
    return msgspec.json.encode(drafts)


def is_written(output: str) -> bool:
    """Return whether an output is a file or folder that holds something."""
    if output == STDOUT or not (sink := resolve(output)).capabilities.is_file:
        return False
    path = Path(output)
    if path.is_dir():
        return any(path.iterdir())
    if not path.exists() or not path.stat().st_size:
        return False
    return sink.factory.is_empty is None or not sink.factory.is_empty(output)


def drafts_for(outputs: Iterable[str], *, own: Iterable[str], confirmed: bool) -> dict[str, str]:
    """Return the drafts that a new generation writes; discard what an earlier one left there.

    `own` are the canonical names of outputs that the crawl itself has written. Raise `Misconfigured` if
    another file would be replaced, unless that is `confirmed`.
    """
    chosen = list(outputs)
    refuse_foreign(chosen, own=own, confirmed=confirmed)
    drafts = {canonical_name(output): draft_of(output) for output in chosen if is_written(output)}
    for draft in drafts.values():
        discard(draft)
    return drafts


def refuse_foreign(outputs: Iterable[str], *, own: Iterable[str], confirmed: bool) -> None:
    """Raise `Misconfigured` if an output holds what the crawl has not written, unless that is `confirmed`."""
    known = set(own)
    for output in outputs:
        if not confirmed and canonical_name(output) not in known and is_written(output):
            raise Misconfigured(
                f"output {output}: it already exists and was not written by this crawl: add --yes to replace"
                " it, or name another output"
            )


def name_beside(output: str) -> str:
    """Return the name under which the draft of an output is shown beside it: `items.new.csv`."""
    path = Path(output)
    ending = "".join(path.suffixes[-2:]) if path.suffix in (".gz", ".zst") else path.suffix
    return str(path.with_name(f"{path.name.removesuffix(ending)}.new{ending}"))


def show(drafts: Mapping[str, str]) -> list[str]:
    """Show drafts that do not replace their outputs beside them, as links; return their names."""
    return [_show(output, draft) for output, draft in drafts.items()]


def _show(output: str, draft: str) -> str:
    link = Path(name_beside(output))
    target = _from_beside(draft)
    with suppress(OSError):  # a file system without links
        if link.is_symlink() and link.readlink() == target:
            return str(link)
        link.symlink_to(target)  # raises if the name is taken
        return str(link)
    return draft


def _from_beside(draft: str) -> Path:
    """Return the path of a draft from the folder of its output."""
    return Path(*Path(draft).parts[-2:])


def hide(draft: str) -> None:
    """Remove the link to a draft, if it is one."""
    folder = Path(draft).parent
    link = Path(name_beside(str(folder.parent / Path(draft).name)))
    with suppress(OSError):
        if link.is_symlink() and link.readlink() == _from_beside(draft):
            link.unlink()


def discard(draft: str) -> None:
    """Delete a draft."""
    hide(draft)
    shutil.rmtree(Path(draft).parent, ignore_errors=True)


def moved(drafts: Mapping[str, str]) -> dict[str, str]:
    """Return the drafts that were moved into place by a process that was killed right after that."""
    return {name: draft for name, draft in drafts.items() if not Path(draft).exists() and Path(name).exists()}


def place_of(output: str) -> str:
    """Return where an output is being written: its draft, if it has one."""
    draft = draft_of(output)
    return draft if not is_address(output) and output != STDOUT and Path(draft).exists() else output


def publish(drafts: Mapping[str, str]) -> None:
    """Move drafts into the place of their outputs, each of which is complete at every moment.

    Several workers of a machine may do it at once: one of them moves, the others find nothing left.
    """
    for name, draft in drafts.items():
        target, folder = Path(name), Path(draft).parent
        with translate_errors(target), _locked(folder) as is_there:
            if not is_there:
                continue
            hide(draft)
            # The output itself first: then the draft is gone, and the rest is moved when this is repeated.
            for made in sorted(folder.iterdir(), key=lambda path: path.name != target.name):
                _replace(made, target.parent / made.name)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Wait until no other process moves what is in a folder; return whether the folder is still there."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # for as long as renaming takes
        yield folder.exists()
    finally:
        os.close(handle)


def _replace(made: Path, target: Path) -> None:
    if not target.is_dir():
        made.replace(target)
        return
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    target.rename(old)  # a folder that is not empty cannot be replaced in one step
    made.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def rename_outputs(checkpoint: bytes | None, drafts: Mapping[str, str]) -> bytes | None:
    """Return the checkpoint of a crawl's outputs with drafts under the names of their outputs."""
    if checkpoint is None:
        return None
    names = {canonical_name(draft): name for name, draft in drafts.items()}
    known = msgspec.msgpack.decode(checkpoint, type=dict[str, bytes])
    return msgspec.msgpack.encode({names.get(name, name): part for name, part in known.items()})
