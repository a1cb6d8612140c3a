"""Dead letters as text and JSON, and confirmation before a change."""

import io
import json
from dataclasses import replace

import pytest
from tests.unit.cli.views.test_summary import LETTER

from shoal.cli.input.confirm import require_yes
from shoal.cli.views.dead_letters import letter_details
from shoal.model.errors import Misconfigured
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Request
from shoal.services.control.dead_letters import dead_letter_json

FULL = replace(
    LETTER,
    crashes=1,
    request=Request(
        url="http://a.test/",
        headers={"Authorization": "hush"},
        body=b"secret=1",
        method="POST",
        found_on=255,
        route="item",
        data={"when": b"\x00"},
    ),
    page=PageRecord(PageRef("seg", 10, 20), 200, 0.0),
)


def test_all_of_a_letter_is_shown_except_secrets() -> None:
    text = "\n".join(letter_details(FULL))

    for expected in (
        "POST http://a.test/",
        FULL.trace,
        '"connection refused"',
        "00000000000000ff",
        "seg at 10",
    ):
        assert expected in text
    assert "Authorization" in text
    assert "8 bytes" in text
    assert "hush" not in text
    assert "secret=1" not in text


def test_any_data_of_a_letter_becomes_json() -> None:
    found = json.loads(json.dumps(dead_letter_json(FULL)))
    assert (found["data"], found["page"]) == ({"when": "AA=="}, ["seg", 10, 20])
    assert "hush" not in str(found)
    assert dead_letter_json(LETTER)["page"] is None


def test_without_a_terminal_only_yes_confirms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(Misconfigured, match="pass --yes"):
        require_yes("really?", yes=False)
    require_yes("really?", yes=True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_anything_but_yes_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    with pytest.raises(Misconfigured, match="nothing was changed"):
        require_yes("really?", yes=False)
    monkeypatch.setattr("sys.stdin", Terminal("Y\n"))
    require_yes("really?", yes=False)
    assert shown.getvalue() == "really? [y/N] " * 2
