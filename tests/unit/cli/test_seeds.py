"""Start URLs, one a line: good ones are taken, bad ones are named."""

from pathlib import Path

import pytest

from shoal.cli.seeds import SHOWN, judge_lines, read_seeds, told
from shoal.model.errors import Misconfigured


def test_urls_are_taken_in_order_and_once_in_canonical_form() -> None:
    lines = ["https://B.test", "", "# a remark", "  https://a.test/x#top ", "https://b.test/"]

    assert judge_lines(lines, "urls.txt").urls == ("https://b.test/", "https://a.test/x")


def test_a_line_that_is_no_url_is_named_and_costs_the_others_nothing() -> None:
    seeds = judge_lines(["https://a.test/", "not a url", "ftp://a.test/", "https://b.test/"], "urls.txt")

    assert seeds.urls == ("https://a.test/", "https://b.test/")
    assert [complaint.split(" ")[0] for complaint in seeds.complaints] == ["urls.txt:2:", "urls.txt:3:"]


def test_a_file_of_something_else_does_not_fill_the_screen() -> None:
    complaints = judge_lines(["nonsense"] * 5_000, "photo.jpg").complaints

    assert len(told(complaints)) == SHOWN + 1
    assert told(complaints)[-1] == "and 4,990 more lines that are no start URLs"
    assert len(told(complaints[:3])) == 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file"),
        (b"", "no start URL in"),
        (b"nonsense\n", "urls.txt:1: "),
        (b"\xff\xfe", "not a text in UTF-8"),
    ],
)
def test_a_file_without_a_start_url_is_refused(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Misconfigured, match=complaint):
        read_seeds(str(file))
