"""Credentials in files."""

from pathlib import Path

import pytest

from shoal.cli.input.secret_files import VARIABLES, load_secret_files
from shoal.cli.main import run
from shoal.model.errors import Misconfigured


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_is_read_from_the_file_that_another_one_names(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("correct horse\n")
    environ = {f"{name}_FILE": str(tmp_path / "secret"), "HOME": "/"}
    load_secret_files(environ)
    assert environ == {name: "correct horse", "HOME": "/"}


def test_a_bad_credential_file_is_refused_without_printing_its_value(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("correct horse")
    file = str(tmp_path / "secret")
    with pytest.raises(Misconfigured, match="PGPASSWORD and PGPASSWORD_FILE are both set") as caught:
        load_secret_files({"PGPASSWORD": "other", "PGPASSWORD_FILE": file})
    assert "other" not in str(caught.value)
    with pytest.raises(
        Misconfigured, match="SHOAL_STORE_FILE: the file that it names cannot be read: No such"
    ):
        load_secret_files({"SHOAL_STORE_FILE": "/nowhere"})
    for given in (
        "redis://:correct-horse@host",
        "correct-horse",
        "correct-horse\0",
        "x" * 5_000,
        str(tmp_path),
    ):
        with pytest.raises(Misconfigured) as caught:
            load_secret_files({"SHOAL_STORE_FILE": given})
        assert given not in str(caught.value)
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(Misconfigured, match="contains no credential"):
        load_secret_files({"PGPASSWORD_FILE": file})


def test_commands_take_the_store_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "store").write_text("redis://:correct%20horse@127.0.0.1:1/?patience_s=0\n")
    monkeypatch.setenv("SHOAL_STORE_FILE", str(tmp_path / "store"))
    monkeypatch.setenv("SHOAL_STORE", "")  # so that what the command puts there is taken back
    monkeypatch.delenv("SHOAL_STORE")
    assert run(["status"]) == 4
    printed = capsys.readouterr().err
    assert "127.0.0.1:1 " in printed
    assert "horse" not in printed
