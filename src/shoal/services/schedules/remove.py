"""Remove what a run of a schedule has left: files that its tick names, and the crawl if that is only its own.

A shared store says which files those are, and its word is not enough to delete one. The time of the tick has
to be in the path, the path below the folders that the operator has named, and beside the file must be the
position of its writer (`FILE.shoal`), which only a fleet writes. A crawl and its archive are removed only
under the name that the schedule gives them at that tick. Files on other machines stay.

Of a folder, only files go whose names Shoal gives, and the folder itself if nothing else is in it.

Each step may be repeated: a scheduler that is killed in between leaves the run to the next one. So the crawl,
which names the files, goes last.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from shoal.archive.fetch_log import open_parts
from shoal.archive.names import file_name
from shoal.archive.registry import open_location
from shoal.archive.segments import EXPIRED_FILE
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.services.schedules.rules import TICK, crawl_of, stamp_of
from shoal.sinks.drafts import draft_of, hide
from shoal.sinks.names import STDOUT, is_address, is_part, parts_folder
from shoal.stores.contract.record_reader import settings_of
from shoal.stores.contract.schedules import Schedule, ScheduledRun
from shoal.stores.contract.store import Store
from shoal.worker.rules import WorkerRules

log = logging.getLogger(__name__)

POSITION = ".shoal"
BESIDE = (".lock", ".shoal.lock", ".shoal.draft", "-wal", "-shm", "-journal")  # beside an output, too


async def remove_run(
    store: Store, schedule: Schedule, run: ScheduledRun, *, folders: Sequence[Path], settings: Settings
) -> None:
    """Remove a run. Raise `Unavailable` if its crawl is being worked on, `Misconfigured` if it has another's.

    `folders`: below which the files of a shared store's schedules may be deleted; `settings` are those of the
    scheduler.
    """
    if run.crawl != crawl_of(schedule, run.tick):
        raise Misconfigured(
            f"the run {stamp_of(run.tick)} of the schedule {schedule.name!r} has the crawl of another:"
            f" {run.crawl[:200]!r}"
        )
    stamp, shared = stamp_of(run.tick), store.capabilities.shared
    written = [output.replace(TICK, stamp) for output in schedule.crawl.outputs if TICK in output]
    own = not schedule.again and run.crawl in await store.crawls.names()
    archive = ""
    if own:
        footprint = await store.crawls.footprint(run.crawl)
        written += footprint.outputs
        archive = await _archive(store, run.crawl, footprint.archive, settings)
    places = _places(written, schedule, stamp)
    await asyncio.to_thread(_remove_files, places, stamp, folders if shared else None)
    if archive:
        await asyncio.to_thread(_remove_archive, archive)
    if own:
        await store.crawls.delete(run.crawl)


async def discard_empty(store: Store, crawl: str) -> None:
    """Delete a crawl without a single request, which a run that failed at its start has left.

    One with earlier generations stays: what they have shown would be deleted with it.
    """
    with suppress(Misconfigured):  # it does not exist
        if (await store.crawls.footprint(crawl)).accepted:
            return
        if (await store.frontier.generations(crawl))[-1].number == 1:
            await store.crawls.delete(crawl)


async def _archive(store: Store, crawl: str, location: str, settings: Settings) -> str:
    """Return the archive that may be deleted; empty: the workers of a fleet have it, or none is allowed."""
    if store.capabilities.shared:
        record = await store.crawls.record(crawl)
        if record is None or not record.archive_location:
            return ""
        if refusal := WorkerRules.of(settings).refusal(settings_of(record)):
            log.warning("archive.unavailable", extra={"crawl": crawl, "why": refusal})
            return ""
    if location.rpartition("/")[2] != file_name(crawl):
        raise Misconfigured(f"the archive of crawl {crawl!r} does not have its name, and is not removed")
    return location


def _remove_archive(location: str) -> None:
    segments = open_location(location)
    parts = open_parts(segments)
    try:
        for opened in (parts, segments):
            for name in opened.segments():
                opened.remove(name)
    finally:
        segments.close()
        parts.close()
    if not is_address(location):
        (Path(location) / EXPIRED_FILE).unlink(missing_ok=True)
        for folder in (Path(str(parts.path)), Path(location)):
            _remove_empty(folder)


def _places(written: Sequence[str], schedule: Schedule, stamp: str) -> Iterator[Path]:
    """Yield the absolute paths of outputs whose names have the tick in them."""
    for output in dict.fromkeys(written):
        if output == STDOUT or is_address(output):
            continue
        with suppress(OSError, RuntimeError, ValueError):  # a loop of links, a NUL
            folder, name = Path(schedule.folder, output).parent.resolve(), Path(output).name
            if stamp in str(folder / name) and name not in ("", "..", "."):
                yield folder / name


def _remove_files(places: Iterator[Path], stamp: str, below: Sequence[Path] | None) -> None:
    for place in places:
        position = place.with_name(place.name + POSITION)
        if below is not None and (
            not any(place.is_relative_to(folder) for folder in below) or not position.is_file()
        ):
            continue
        draft = Path(draft_of(str(place)))
        hide(str(draft))
        if not draft.parent.is_symlink():
            _remove_output(draft)
            _remove_empty(draft.parent)
        _remove_output(place)
        if stamp in place.parent.name:
            _remove_empty(place.parent)


def _remove_output(place: Path) -> None:
    """Remove an output, and what its sink and its writer put beside it."""
    for path in (place, parts_folder(place)):
        if path.is_dir() and not path.is_symlink():
            for found in list(path.iterdir()):
                if is_part(found.name):
                    found.unlink(missing_ok=True)
            _remove_empty(path)
        elif path == place:
            path.unlink(missing_ok=True)
    place.with_name(f".{place.name}.draft").unlink(missing_ok=True)
    for ending in (*BESIDE, POSITION):  # the position last: it allows the rest to be removed again
        place.with_name(place.name + ending).unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # something else is in it, or it is not there
        folder.rmdir()
