"""The location of a crawl's segments: a folder, or an object store by the scheme of its address.

In a fleet the settings of the crawl contain the location. A crawl that has its own folder keeps a file
there that contains the location, if its segments are elsewhere, so that every command that opens the folder
finds them.
"""

from pathlib import Path

from shoal.archive.contract import ArchiveFactory, Segments
from shoal.archive.names import file_name
from shoal.archive.segments import SegmentFolder
from shoal.backends import Backends, Builtin
from shoal.model.errors import Misconfigured

GROUP = "shoal.archives"
_ARCHIVES = Backends(
    GROUP,
    ArchiveFactory,
    {scheme: Builtin("shoal.archive.bucket:FACTORY", extra="s3") for scheme in ("s3", "gs", "az")},
)
_LOCATION_FILE = ".location"


def open_segments(location: str, crawl: str) -> Segments:
    """Open the segments of a crawl below a folder, or below a prefix of an object store."""
    return open_location(crawl_location(location, crawl))


def open_crawl_folder(folder: Path) -> Segments:
    """Open the segments of the crawl that has this folder."""
    return open_location(folder_location(folder))


def folder_location(folder: Path) -> str:
    """Return the location of the segments of the crawl that has this folder, without opening it."""
    return _stored_location(folder) or str(folder)


def choose_location(folder: Path, location: str, crawl: str) -> Segments:
    """Open the segments of a crawl at `location`, and store that in its folder.

    An empty location is the current one, and for a new crawl its folder. Raise `Misconfigured` if the crawl
    already has segments elsewhere: pages are found by the names of their segments alone, so an archive has
    one location.
    """
    current = _stored_location(folder)
    wanted = crawl_location(location, crawl) if location else current
    if wanted == current:
        return open_crawl_folder(folder)
    if current or SegmentFolder(folder).segments():
        raise Misconfigured(
            f"archive.location: the pages of this crawl are in {current or folder}: use that location,"
            " or give the crawl another store"
        )
    segments = open_location(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{_LOCATION_FILE}.tmp"
    draft.write_text(f"{wanted}\n")
    draft.replace(folder / _LOCATION_FILE)
    return segments


def crawl_location(location: str, crawl: str) -> str:
    """Return the location of a crawl's segments below a folder, or below a prefix of an object store."""
    if "://" in location:
        return f"{location.rstrip('/')}/{file_name(crawl)}"
    return str(Path(location, file_name(crawl)).absolute())


def _stored_location(folder: Path) -> str:
    try:
        return (folder / _LOCATION_FILE).read_text().strip()
    except FileNotFoundError:
        return ""


def open_location(location: str) -> Segments:
    """Open the segments at a location: a folder, or an address."""
    scheme, is_address, _ = location.partition("://")
    if not is_address:
        return SegmentFolder(Path(location))
    if (name := _ARCHIVES.find(scheme.lower())) is None:
        # Name the scheme only: an address may contain a password.
        known = ", ".join(_ARCHIVES.names())
        raise Misconfigured(f"archive.location: no archive for the scheme {scheme!r}; known: {known}")
    return _ARCHIVES.load(name, subject="archive.location").open(location)
