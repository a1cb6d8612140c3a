"""Where the segments of a crawl are: in a folder, or on an object store.

In a fleet the crawl's settings say so. A crawl that has a folder of its own keeps a note there if its
segments are elsewhere, so that whoever looks into the folder finds them.
"""

from pathlib import Path

from shoal.archive.names import file_name
from shoal.archive.segments import SegmentFolder, Segments
from shoal.model.errors import Misconfigured

_STORES = ("s3", "gs", "az")
_ELSEWHERE = ".location"


def open_segments(location: str, crawl: str) -> Segments:
    """Find the segments of a crawl below a folder, or below a prefix of an object store."""
    return _at(place_below(location, crawl))


def segments_in(folder: Path) -> Segments:
    """Find the segments of the crawl whose folder this is."""
    return _at(place_in(folder))


def place_in(folder: Path) -> str:
    """Name the place of the segments of the crawl whose folder this is, without going there."""
    return _note(folder) or str(folder)


def place_segments(folder: Path, location: str, crawl: str) -> Segments:
    """Choose where the segments of a crawl go; empty: where they are, and at first into its folder.

    Pages are found by the names of their segments alone, so an archive cannot be in two places.
    """
    wanted = place_below(location, crawl) if location else _note(folder)
    if wanted == _note(folder):
        return segments_in(folder)
    if _note(folder) or SegmentFolder(folder).segments():
        raise Misconfigured(
            f"archive.location: the pages of this crawl are in {_note(folder) or folder}: say so,"
            " or give the crawl another store"
        )
    segments = _at(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{_ELSEWHERE}.tmp"
    draft.write_text(f"{wanted}\n")
    draft.replace(folder / _ELSEWHERE)
    return segments


def _note(folder: Path) -> str:
    try:
        return (folder / _ELSEWHERE).read_text().strip()
    except FileNotFoundError:
        return ""


def place_below(location: str, crawl: str) -> str:
    """Name the place of a crawl's segments below a folder, or below a prefix of an object store."""
    if "://" in location:
        return f"{location.rstrip('/')}/{file_name(crawl)}"
    return str(Path(location, file_name(crawl)).absolute())


def _at(location: str) -> Segments:
    scheme, is_address, _ = location.partition("://")
    if not is_address:
        return SegmentFolder(Path(location))
    if scheme not in _STORES:  # name the scheme only: an address may carry a password
        raise Misconfigured(f"archive.location: nothing here speaks {scheme!r}; known: {', '.join(_STORES)}")
    try:
        from shoal.archive.bucket import SegmentBucket
    except ImportError as error:
        raise Misconfigured("archive.location: run  pip install 'shoal[s3]'  first") from error
    return SegmentBucket(location)
