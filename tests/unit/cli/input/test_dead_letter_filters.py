"""Options that select dead letters."""

import pytest

from shoal.cli.input.dead_letter_filters import DeadLetterOptions, age
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.services.control.dead_letters import DeadLetterFilter


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("7D", 604_800), ("1w", 604_800)]
)
def test_an_age_has_a_unit(text: str, seconds: float) -> None:
    assert age("--older", text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1 year", "1d2h"])
def test_a_bad_age_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"--older .* must be an age such as 90s"):
        age("--older", text)


def test_a_bad_pattern_is_refused() -> None:
    with pytest.raises(Misconfigured, match="--match: not a regular expression"):
        DeadLetterOptions(match="(").filter()


def test_no_option_selects_all_letters() -> None:
    assert DeadLetterOptions().filter() == DeadLetterFilter()


def test_options_become_a_filter() -> None:
    options = DeadLetterOptions(store="s", host="Shop.Example", kind="timeout", older="1h", limit=3)
    assert options.address() == "s"
    assert options.filter() == DeadLetterFilter(
        host="shop.example", kind=FailureClass.TIMEOUT, older=3600.0, limit=3
    )
