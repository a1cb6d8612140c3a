"""Options that select pages of a crawl."""

import pytest

from shoal.cli.input.page_filters import PageFilterOptions
from shoal.model.errors import Misconfigured


def test_options_become_a_filter() -> None:
    chosen = PageFilterOptions(match="/a", status=200, since="2026-01-31", limit=5).filter()
    assert (chosen.match, chosen.status, chosen.limit) == ("/a", 200, 5)
    assert (chosen.since, chosen.until) == (1_769_817_600.0, None)


def test_a_time_zone_is_respected() -> None:
    utc = PageFilterOptions(until="2026-01-31T12:00").filter()
    assert utc == PageFilterOptions(until="2026-01-31T13:00+01:00").filter()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PageFilterOptions(match="("), "--match '\\(': not a regular expression"),
        (PageFilterOptions(since="yesterday"), "--since 'yesterday': must be a date"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(options: PageFilterOptions, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        options.filter()
