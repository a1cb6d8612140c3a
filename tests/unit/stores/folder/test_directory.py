"""The folder of a store: one owner, and clear errors."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured, Unavailable
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.directory import StoreFolder, explain

UNPRIVILEGED_UID = 65534

OWN = "import sys, pathlib, shoal.stores.folder.directory as f\nwith f.StoreFolder(pathlib.Path(sys.argv[1])).owned():\n    print('owned', flush=True)\n    sys.stdin.read()"


def test_owning_creates_the_store(tmp_path: Path) -> None:
    folder = StoreFolder(tmp_path / "deep" / "store")
    assert not folder.exists
    with folder.owned() as owned:
        assert owned.archive.is_dir()
        assert owned.items.is_dir()
        assert folder.lock.read_text().split()[0] == str(os.getpid())


def test_a_second_owner_is_refused_by_name(tmp_path: Path) -> None:
    folder = StoreFolder(tmp_path)
    with folder.owned():
        assert folder.owner() is not None
        with (
            pytest.raises(StoreBusy, match=rf"process {os.getpid()} since 20\d\d-") as refused,
            folder.owned(),
        ):
            pass
        assert isinstance(refused.value, Unavailable)
        assert "\n" not in str(refused.value)
    assert folder.owner() is None
    with folder.owned():
        pass


def test_ownership_ends_with_the_process_however_that_dies(tmp_path: Path) -> None:
    folder = StoreFolder(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", OWN, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"owned\n"
        assert folder.owner() is not None
        with pytest.raises(StoreBusy, match=str(child.pid)), folder.owned():
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        with folder.owned():
            pass


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Misconfigured, match="not a folder"), StoreFolder(path).owned():
            pass


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop privileges for the block if this is root, who may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(UNPRIVILEGED_UID)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with (
        unprivileged(),
        pytest.raises(Misconfigured, match="cannot be written"),
        StoreFolder(tmp_path / "store").owned(),
    ):
        pass


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    error = explain(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert isinstance(error, Unavailable)
    assert str(error) == f"disk full: {tmp_path}"


def test_other_faults_keep_the_system_message(tmp_path: Path) -> None:
    assert "Input/output error" in str(explain(OSError(errno.EIO, os.strerror(errno.EIO)), tmp_path))
    assert isinstance(explain(OSError(errno.EROFS, "read-only"), tmp_path), Unavailable)


def test_a_missing_store_has_no_owner(tmp_path: Path) -> None:
    assert StoreFolder(tmp_path / "nowhere").owner() is None
