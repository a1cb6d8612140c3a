import pytest

from shoal.model.configuration.expression import compile_expression
from shoal.model.errors import Rejected
from shoal.model.start_url import start_url


@pytest.mark.parametrize("text", ["(", "a{99999999999}", "(" * 10_000, "[z-a]"])
def test_what_is_no_regular_expression_is_named_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        compile_expression(text)


def test_a_start_url_with_a_host_that_cannot_be_stored_is_refused_by_itself() -> None:
    with pytest.raises(Rejected, match="more than 255 bytes"):
        start_url(f"http://{'.'.join(['a' * 60] * 5)}/")
