"""Choosing dead letters on the command line."""

import inspect

import pytest

from shoal.cli.input.dead_letter_filters import Asked, age, asked_of, on_letters
from shoal.model.errors import Misconfigured
from shoal.services.control.dead_letters import DeadLetterFilter


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("7D", 604_800), ("1w", 604_800)]
)
def test_ages_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert age("--older", text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1 year", "1d2h"])
def test_an_age_that_is_none_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"--older .* must be an age such as 90s"):
        age("--older", text)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(Misconfigured, match="--match: not a regular expression"):
        asked_of(match="(")


def test_no_filter_means_all_letters() -> None:
    assert asked_of().choice == DeadLetterFilter()
    assert asked_of(host="Shop.Example").choice.host == "shop.example"


def test_a_command_on_letters_gets_what_was_chosen_and_its_own_options() -> None:
    got: list[tuple[Asked, bool]] = []

    @on_letters
    def command(asked: Asked, *, gently: bool = False) -> None:
        got.append((asked, gently))

    given = dict.fromkeys(inspect.signature(asked_of).parameters)
    command(**{**given, "host": "a.test", "store": "s", "json": True}, gently=True)

    assert got == [(Asked("s", DeadLetterFilter(host="a.test"), json=True), True)]
    assert set(inspect.signature(command).parameters) == {*given, "gently"}
