import pytest

from shoal.model.levels.ladder import (
    BROWSER,
    EXIT,
    IMPERSONATE,
    LADDER,
    PLAIN,
    Cause,
    lower_level,
    next_level,
    usable_level,
)

BLOCK, SHELL = Cause.ANTI_BOT, Cause.EMPTY_SHELL


@pytest.mark.parametrize(
    ("level", "cause", "available", "expected"),
    [
        (PLAIN, BLOCK, LADDER, EXIT),
        (EXIT, BLOCK, LADDER, IMPERSONATE),
        (IMPERSONATE, BLOCK, LADDER, BROWSER),
        (BROWSER, BLOCK, LADDER, None),
        (PLAIN, BLOCK, (PLAIN, BROWSER), BROWSER),
        (PLAIN, BLOCK, (PLAIN,), None),
        (PLAIN, SHELL, LADDER, BROWSER),
        (IMPERSONATE, SHELL, LADDER, BROWSER),
        (PLAIN, SHELL, (PLAIN, EXIT, IMPERSONATE), None),
        (BROWSER, SHELL, LADDER, None),
    ],
)
def test_the_next_level_is_the_cheapest_one_that_may_help(
    level: str, cause: Cause, available: tuple[str, ...], expected: str | None
) -> None:
    assert next_level(level, cause, available) == expected


@pytest.mark.parametrize(
    ("level", "cause", "available", "expected"),
    [
        (BROWSER, BLOCK, LADDER, IMPERSONATE),
        (BROWSER, BLOCK, (PLAIN, BROWSER), PLAIN),
        (BROWSER, SHELL, LADDER, PLAIN),
        (EXIT, BLOCK, LADDER, PLAIN),
    ],
)
def test_a_probe_goes_one_level_down_but_for_a_shell_to_the_first(
    level: str, cause: Cause, available: tuple[str, ...], expected: str
) -> None:
    assert lower_level(level, cause, available) == expected


@pytest.mark.parametrize(
    ("level", "available", "expected"),
    [
        (IMPERSONATE, LADDER, IMPERSONATE),
        (IMPERSONATE, (PLAIN, EXIT, BROWSER), BROWSER),
        (IMPERSONATE, (PLAIN, EXIT), EXIT),
        (BROWSER, (PLAIN,), PLAIN),
        ("telepathy", LADDER, PLAIN),
    ],
)
def test_a_level_that_is_not_available_is_replaced(
    level: str, available: tuple[str, ...], expected: str
) -> None:
    assert usable_level(level, available) == expected
