"""The exit code of every ending and every error."""

import pytest
from tests.unit.cli.snapshots import snapshot, summary

from shoal.cli.process.exit_codes import MEANING, ExitCode, exit_code_for
from shoal.cli.process.run_crawl import crawl_exit_code
from shoal.cli.views.output import ClosedPipe
from shoal.model.errors import Misconfigured, Rejected, ShoalError, Unavailable
from shoal.model.yields.counts import YieldDrop
from shoal.services.crawl import Ending

NO_PAGE = snapshot(pages=0, counts={"done": 0, "dead": 1})


@pytest.mark.parametrize(
    ("ending", "code"),
    [(Ending.FINISHED, 0), (Ending.LIMITED, 0), (Ending.INTERRUPTED, 3)],
)
def test_an_ending_has_its_exit_code(ending: Ending, code: int) -> None:
    assert crawl_exit_code(summary(ending), max_dead=None) == code


def test_more_dead_letters_than_allowed_have_an_exit_code() -> None:
    assert crawl_exit_code(summary(max_dead_exceeded=True), max_dead=1) == ExitCode.DEAD_LETTERS


def test_no_page_is_a_failure_unless_dead_letters_were_allowed() -> None:
    assert crawl_exit_code(summary(snapshot=NO_PAGE), max_dead=None) == ExitCode.NO_DATA
    assert crawl_exit_code(summary(snapshot=NO_PAGE), max_dead=1) == ExitCode.FINISHED


def test_what_became_of_the_data_comes_before_what_became_of_requests() -> None:
    dropped = summary(dropped=(YieldDrop("items", ""),), kept=("items.jsonl",), max_dead_exceeded=True)
    assert crawl_exit_code(dropped, max_dead=1) == ExitCode.YIELD_DROPPED
    assert crawl_exit_code(summary(no_data="no item", kept=("i.csv",)), max_dead=None) == ExitCode.NO_DATA
    failed = summary(snapshot=NO_PAGE, kept=("items.jsonl",))
    assert crawl_exit_code(failed, max_dead=None) == ExitCode.KEPT


def test_interrupted_beats_dead_letters_because_the_crawl_can_resume() -> None:
    assert (
        crawl_exit_code(summary(Ending.INTERRUPTED, max_dead_exceeded=True), max_dead=1)
        == ExitCode.INTERRUPTED
    )


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
def test_an_error_has_the_exit_code_of_its_family(error: ShoalError, code: int) -> None:
    assert exit_code_for(error) == code


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANING) == set(ExitCode)
