from pathlib import Path

import pytest

from shoal.cli.input.settings_loader import load_settings, merge_layers
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shoal.toml"
    path.write_text("store = 'from-file'\n[crawl]\nrate = 1\ndepth = 1\nburst = 1\n")
    return path


def test_flags_beat_the_environment_which_beats_the_file_which_beats_the_defaults(file: Path) -> None:
    found = merge_layers(
        {"crawl.rate": 3.0}, environ={"SHOAL_CRAWL_RATE": "2", "SHOAL_CRAWL_DEPTH": "2"}, file=file
    ).settings

    assert found.crawl.rate == 3.0
    assert found.crawl.depth == 2
    assert found.store == "from-file"
    assert found.crawl.per_host == Settings().crawl.per_host


def test_a_set_value_is_an_override_even_if_it_equals_the_default(file: Path) -> None:
    found = merge_layers({"crawl.robots": True}, environ={"SHOAL_CRAWL_PROCS": "0"}, file=file)
    assert found.overrides == {"rate", "depth", "burst", "procs", "robots"}


def test_a_bad_flag_is_refused_by_its_name() -> None:
    with pytest.raises(Misconfigured, match="--per-host: must be a whole number from 1 to 10,000, not 0"):
        merge_layers({"crawl.per_host": 0}, environ={}, file=None)


def test_a_file_in_the_current_folder_is_found(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert load_settings({}).settings.store == "from-file"


def test_a_missing_file_is_fine_unless_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings({}).settings == Settings()
    with pytest.raises(Misconfigured, match=r"other\.toml: cannot be read: No such file"):
        load_settings({}, config="other.toml")


@pytest.mark.parametrize("content", [b"[crawl", b"a = \xff", b"x" * (2 << 20)])
def test_a_file_that_is_not_toml_is_refused_by_name(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(Misconfigured, match=r"shoal\.toml: "):
        merge_layers({}, environ={}, file=file)


def test_a_folder_is_not_a_settings_file(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: Is a directory"):
        merge_layers({}, environ={}, file=tmp_path)
