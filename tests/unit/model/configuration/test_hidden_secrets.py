"""Values of environment variables stay out of records, and each machine fills in its own."""

import pytest

from shoal.model.configuration.hidden_secrets import (
    hide_in,
    hide_secrets,
    refuse_stored_secrets,
    reveal_secrets,
    visible_secrets,
)
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, HostSettings, Settings

ENVIRONMENT = {"API_KEY": "s3cret-key", "SHORT": "abc", "OTHER": "another-secret"}
SETTINGS = Settings(
    crawl=CrawlSettings(headers={"X-Key": "Bearer s3cret-key", "Accept": "*/*"}),
    hosts={"a.example": HostSettings(rate=1.0, headers={"X-Own": "s3cret-key"})},
)


def test_only_listed_variables_that_are_long_enough_are_secrets() -> None:
    assert visible_secrets(["API_KEY", "SHORT", "MISSING"], ENVIRONMENT) == {"API_KEY": "s3cret-key"}


def test_headers_are_hidden_and_filled_in_where_they_are_used() -> None:
    hidden = hide_secrets(SETTINGS, visible_secrets(["API_KEY"], ENVIRONMENT))
    assert hidden.crawl.headers == {"X-Key": "Bearer ${secret:API_KEY}", "Accept": "*/*"}
    assert hidden.hosts["a.example"].headers == {"X-Own": "${secret:API_KEY}"}
    assert reveal_secrets(hidden, ["API_KEY"], ENVIRONMENT) == SETTINGS
    assert (
        reveal_secrets(hidden, ["API_KEY"], {"API_KEY": "theirs"}).crawl.headers["X-Key"] == "Bearer theirs"
    )


@pytest.mark.parametrize(("names", "environment"), [([], ENVIRONMENT), (["API_KEY"], {})])
def test_a_worker_that_lacks_a_variable_says_which_one(names: list[str], environment: dict[str, str]) -> None:
    hidden = hide_secrets(SETTINGS, {"API_KEY": "s3cret-key"})
    with pytest.raises(Misconfigured, match=r"needs the environment variable API_KEY.*parse\.environment"):
        reveal_secrets(hidden, names, environment)


def test_a_value_that_would_be_stored_is_refused_and_not_shown() -> None:
    refuse_stored_secrets(b"harmless", {"API_KEY": "s3cret-key"})
    with pytest.raises(Misconfigured, match="the value of API_KEY would be stored") as error:
        refuse_stored_secrets(b"cookie=s3cret-key", {"API_KEY": "s3cret-key"})
    assert "s3cret" not in str(error.value)


def test_text_for_a_log_has_the_name_instead_of_the_value() -> None:
    assert hide_in("401 for s3cret-key", {"API_KEY": "s3cret-key"}) == "401 for ${secret:API_KEY}"
