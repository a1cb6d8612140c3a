"""Remove what a run of a schedule has left: files that its tick names, and the crawl if that is only its own.

A shared store says which files those are, and its word is not enough to delete one. The time of the tick has
to be in the path, the path below the folders that the operator has named, and beside the file must be the
position of its writer (`FILE.shoal`), which only a fleet writes. Files on other machines stay.

Each step may be repeated: a scheduler that is killed in between leaves the run to the next one.
"""

import asyncio
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from shoal.archive.fetch_log import open_parts
from shoal.archive.registry import open_location
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.services.schedules.rules import TICK, stamp_of
from shoal.sinks.drafts import draft_of
from shoal.sinks.names import STDOUT, is_address
from shoal.stores.contract.record_reader import settings_of
from shoal.stores.contract.schedules import Schedule, ScheduledRun
from shoal.stores.contract.store import Store
from shoal.worker.rules import WorkerRules

log = logging.getLogger(__name__)

BESIDE = (".shoal", ".shoal.lock", ".lock")  # endings of the files beside an output


async def remove_run(
    store: Store, schedule: Schedule, run: ScheduledRun, *, folders: Sequence[Path], settings: Settings
) -> None:
    """Remove a run. Raise `Unavailable` if its crawl is being worked on.

    `folders`: below which the files of a shared store's schedules may be deleted; `settings` are those of the
    scheduler.
    """
    stamp, shared = stamp_of(run.tick), store.capabilities.shared
    written = [output.replace(TICK, stamp) for output in schedule.crawl.outputs if TICK in output]
    if not schedule.again and run.crawl in await store.crawls.names():
        footprint = await store.crawls.footprint(run.crawl)
        written += footprint.outputs
        if archive := await _archive(store, run.crawl, footprint.archive, settings):
            await asyncio.to_thread(_remove_archive, archive)
        await store.crawls.delete(run.crawl)
    places = _places(written, schedule, stamp)
    await asyncio.to_thread(_remove_files, places, stamp, folders if shared else None)


async def discard_empty(store: Store, crawl: str) -> None:
    """Delete a crawl without a single request, which a run that failed at its start has left."""
    with suppress(Misconfigured):  # it does not exist
        if not (await store.crawls.footprint(crawl)).accepted:
            await store.crawls.delete(crawl)


async def _archive(store: Store, crawl: str, location: str, settings: Settings) -> str:
    """Return the archive that may be deleted; empty: the workers of a fleet have it, or none is allowed."""
    if not store.capabilities.shared:
        return location
    record = await store.crawls.record(crawl)
    if record is None or not record.archive_location:
        return ""
    if refusal := WorkerRules.of(settings).refusal(settings_of(record)):
        log.warning("archive.unavailable", extra={"crawl": crawl, "why": refusal})
        return ""
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
        shutil.rmtree(location, ignore_errors=True)


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
        position = place.with_name(place.name + BESIDE[0])
        if below is not None and (
            not any(place.is_relative_to(folder) for folder in below) or not position.is_file()
        ):
            continue
        for path in (place, Path(draft_of(str(place))).parent):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for ending in reversed(BESIDE):  # the position last: it allows the rest to be removed again
            place.with_name(place.name + ending).unlink(missing_ok=True)
        if stamp in place.parent.name:
            with suppress(OSError):  # something else is in it
                place.parent.rmdir()
