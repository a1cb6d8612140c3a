"""The last word of a crawl."""

import json

import pytest
from tests.unit.cli.snapshots import BUSY, snapshot, summary

from shoal.cli.exits import MEANING, Exit, code_of
from shoal.cli.output import ClosedPipe
from shoal.cli.report import again, exit_of, summary_json, summary_lines
from shoal.model.errors import Misconfigured, Rejected, ShoalError, Unavailable
from shoal.runtime.snapshot import Ending

NO_PAGE = snapshot(pages=0, counts={"done": 0, "dead": 1})


def test_the_summary_says_what_was_done_where_it_is_and_what_to_try_next() -> None:
    text = "\n".join(summary_lines(summary(dead_by_class={"timeout": 3}), again="shoal crawl x"))

    for expected in (
        "Finished: 1,234 pages and 1,100 items in 1m 12s (17.1 pages/s, 48.2 MB)",
        "done 1,234",
        "failures   timeout 5, target_error 2",
        "filtered   scope 80, robots 8",
        "given up   timeout 3",
        "items      shoal-data/items.jsonl",
        "archive    shoal-data/archive",
        "Next: shoal dlq list --store shoal-data",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("ending", "headline", "following"),
    [
        (Ending.FINISHED, "Finished", "shoal verify --store shoal-data"),
        (Ending.INTERRUPTED, "Interrupted", "shoal crawl x"),
        (Ending.LIMITED, "Stopped at --max-pages", "--max-pages"),
    ],
)
def test_every_ending_names_the_next_step(ending: Ending, headline: str, following: str) -> None:
    first, *_, last = summary_lines(summary(ending), again="shoal crawl x")
    assert first.startswith(headline)
    assert last.startswith("Next: ")
    assert following in last


@pytest.mark.parametrize(
    ("ending", "code"),
    [(Ending.FINISHED, 0), (Ending.LIMITED, 0), (Ending.INTERRUPTED, 3)],
)
def test_an_ending_has_its_code(ending: Ending, code: int) -> None:
    assert exit_of(summary(ending), max_dead=None) == code


def test_more_dead_letters_than_allowed_have_a_code() -> None:
    assert exit_of(summary(max_dead_exceeded=True), max_dead=1) == Exit.DEAD_LETTERS


def test_not_a_single_page_is_no_success_unless_dead_letters_were_allowed() -> None:
    assert exit_of(summary(snapshot=NO_PAGE), max_dead=None) == Exit.DEAD_LETTERS
    assert exit_of(summary(snapshot=NO_PAGE), max_dead=1) == Exit.FINISHED


def test_interrupted_comes_before_dead_letters_because_there_is_more_to_come() -> None:
    assert exit_of(summary(Ending.INTERRUPTED, max_dead_exceeded=True), max_dead=1) == Exit.INTERRUPTED


def test_programs_get_the_same_figures() -> None:
    found = json.loads(json.dumps(summary_json(summary(dead_by_class={"dns": 3}), code=Exit.FINISHED)))

    assert found["ending"] == "finished"
    assert found["exit_code"] == 0
    assert found["counts"] == dict(BUSY.counts)
    assert (found["pages"], found["items"], found["bytes"]) == (1234, 1100, 48_200_000)
    assert found["dead_by_class"] == {"dns": 3}
    assert (found["outputs"], found["archive"]) == (["shoal-data/items.jsonl"], "shoal-data/archive")


def test_the_command_to_go_on_with_does_not_start_afresh_and_holds_no_password() -> None:
    typed = ["crawl", "my spider.py", "--fresh", "--store", "redis://user:secret@host/0"]
    assert again(typed) == "shoal crawl 'my spider.py' --store 'redis://***@host/0'"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Misconfigured("x"), 1),
        (Rejected("x"), 1),
        (Unavailable("x"), 4),
        (ClosedPipe("x"), 141),
        (ShoalError("x"), 1),
    ],
)
def test_an_error_has_the_code_of_its_family(error: ShoalError, code: int) -> None:
    assert code_of(error) == code


def test_every_code_has_a_meaning() -> None:
    assert set(MEANING) == set(Exit)
