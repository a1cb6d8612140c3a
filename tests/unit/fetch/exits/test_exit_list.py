"""The list of exits: lines, and files of lines."""

from pathlib import Path

import pytest

from shoal.fetch.exits.exit_list import part_of, read_exits
from shoal.model.errors import Misconfigured
from shoal.model.exits.exit import has_password, is_line


def test_lines_and_files_are_read_in_order_without_comments_and_repeats(tmp_path: Path) -> None:
    file = tmp_path / "exits.txt"
    file.write_text("# ours\n\n  http://b:1  kind=isp \n127.0.0.1:3128:u:p#1\nhttp://a:1\n")
    file.chmod(0o600)
    found = read_exits(["# none", "http://a:1", str(file)])
    assert [exit.name for exit in found] == ["a:1", "b:1", "127.0.0.1:3128"]
    assert found[2].password == "p#1"
    assert [exit.name for exit in part_of(found, "2/2")] == ["a:1"]
    assert part_of(found, "auto") == part_of(found, "") == found


@pytest.mark.parametrize(
    ("text", "place"),
    [("http://a:1\nhttp://u:SECRET@b", "entry 1, line 2"), ("http://a:1 SECRET", "entry 1, line 1")],
)
def test_a_bad_line_is_named_by_its_place_and_not_by_its_text(text: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "exits.txt"
    file.write_text(text)
    with pytest.raises(Misconfigured, match=place) as caught:
        read_exits([str(file)])
    assert "SECRET" not in str(caught.value)


def test_a_file_that_others_can_read_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "exits.txt"
    file.write_text("http://a:1\n")
    file.chmod(0o644)
    read_exits([str(file)])
    assert [record.message for record in caplog.records] == ["proxies.file_readable"]


@pytest.mark.parametrize("entry", ["SECRET", "/no/such/file", "/", "a\0b"])
def test_what_is_neither_a_line_nor_a_file_is_refused(entry: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        read_exits([entry])
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "line", "secret"),
    [
        ("http://h:1", True, False),
        ("http://u:p@h:1 kind=isp", True, True),
        ("h:1", True, False),
        ("h:1:u:p", True, True),
        ("exits.txt", False, False),
        ("/etc/a@b", False, False),
        ("", False, False),
    ],
)
def test_a_password_on_the_command_line_is_noticed(entry: str, line: bool, secret: bool) -> None:
    assert (is_line(entry), has_password(entry)) == (line, secret)
