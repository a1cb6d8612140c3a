"""Who may read a store, whatever the umask."""

import os
import stat
from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.open import open_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> None:
    os.umask(0o022)


async def test_a_new_store_is_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    async with open_store(str(folder), create=True) as store, store.work() as owned:
        await owned.frontier.crawls.open("c")
        files = {path.name: mode(path) for path in folder.iterdir() if path.is_file()}
    assert mode(folder) == 0o700
    assert {"store.db", "lock"} <= files.keys()
    assert set(files.values()) == {0o600}


async def test_a_store_of_an_earlier_version_is_closed_when_it_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    async with open_store(str(folder), create=True) as store, store.work():
        pass
    folder.chmod(0o755)
    (folder / "store.db").chmod(0o644)
    async with open_store(str(folder), create=True) as store, store.work():
        pass
    assert (mode(folder), mode(folder / "store.db")) == (0o700, 0o600)


def test_a_folder_with_other_files_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "home"
    shared.mkdir(mode=0o755)
    (shared / "letter.txt").touch()
    with StoreFolder(shared).owned():
        assert mode(shared) == 0o755
        assert mode(shared / "lock") == 0o600
    sticky = tmp_path / "tmp"
    sticky.mkdir()
    sticky.chmod(0o1777)
    with StoreFolder(sticky).owned():
        assert mode(sticky) == 0o1777


def test_a_lock_that_is_a_link_is_refused_and_its_target_stays_as_it_was(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "store"
    victim.write_text("precious")
    folder.mkdir()
    (folder / "lock").symlink_to(victim)
    with pytest.raises(Misconfigured, match="its lock is a symbolic link"), StoreFolder(folder).owned():
        pass
    assert victim.read_text() == "precious"
    assert StoreFolder(folder).owner() is None


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        monkeypatch.setattr("shoal.stores.folder.permissions.os.geteuid", lambda: 12345)
    with pytest.raises(Misconfigured, match=r"belongs to another user .*chown"), StoreFolder(folder).owned():
        pass
