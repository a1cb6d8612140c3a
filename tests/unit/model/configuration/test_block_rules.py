"""The user's own rules for blocks."""

import pytest

from shoal.model.configuration.block_rules import BlockRules, block_rule, block_rules
from shoal.model.configuration.configure import SettingValue, configure, from_environment, from_tree
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import Response


def response(status: int = 200, body: bytes = b"", host: str = "a.test", **headers: str) -> Response:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(f"https://{host}/", status, pairs, body, body, 0.0, 0.1)


@pytest.mark.parametrize(
    ("rule", "page", "met"),
    [
        ("status: 403", response(403), True),
        ("status: 403", response(200), False),
        ("header: X-Denied", response(x_denied="yes"), True),
        ("header: x-denied: No", response(x_denied="yes"), False),
        ("header: x-denied: YES", response(x_denied="oh yes"), True),
        ("text: Access denied", response(body=b"<h1>Access denied</h1>"), True),
        ("text: Access denied", response(body=b"<h1>access denied</h1>"), False),
        ("status: 200 and text: salt and pepper", response(body=b"salt and pepper"), True),
        ("status: 403 and text: salt and pepper", response(body=b"salt and pepper"), False),
        ("text: \u00fcber and header: server: x", response(body="\u00fcber".encode(), server="X"), True),
    ],
)
def test_a_rule_is_met_if_all_its_conditions_are(rule: str, page: Response, met: bool) -> None:
    assert (BlockRules([rule]).find(page) is not None) is met


@pytest.mark.parametrize(
    "text", ["", "captcha", "status: 42", "colour: red", "text:", "status: 200 and status: 403"]
)
def test_what_is_no_rule_is_rejected(text: str) -> None:
    with pytest.raises(Rejected, match=r"rule|status"):
        block_rule(text)


def test_elements_are_left_to_where_the_page_is_parsed() -> None:
    rules = BlockRules(["status: 200 and selector: #captcha", "selector: .x and selector: .y", "status: 403"])
    page = response()
    assert rules.find(page) is None
    assert rules.to_check(page.url, 200, page.headers, b"") == (("#captcha",), (".x", ".y"))
    assert rules.to_check(page.url, 404, page.headers, b"") == ((".x", ".y"),)
    assert rules.selectors == {"#captcha", ".x", ".y"}
    assert BlockRules(["status: 403"]).to_check(page.url, 403, (), b"") == ()


def test_a_host_has_its_rules_in_addition() -> None:
    settings = configure(
        [
            SettingValue("crawl.blocked_if", ["text: denied"], "test"),
            SettingValue("hosts", {"b.test": {"blocked_if": ["text: go away"]}}, "test"),
        ]
    )
    rules = block_rules(settings)
    assert str(rules.find(response(body=b"denied", host="b.test"))) == "text: denied"
    assert str(rules.find(response(body=b"go away", host="b.test"))) == "text: go away"
    assert rules.find(response(body=b"go away")) is None


def test_a_bad_rule_is_named_with_its_origin() -> None:
    with pytest.raises(Misconfigured, match=r"shoal.toml: crawl.blocked_if: 'captcha' is not a rule"):
        configure(from_tree({"crawl": {"blocked_if": ["captcha"]}}, "shoal.toml"))


def test_in_the_environment_there_is_one_rule_per_line() -> None:
    given = from_environment({"SHOAL_CRAWL_BLOCKED_IF": "text: one, two\nstatus: 418\n"})
    assert configure(given).crawl.blocked_if == ("text: one, two", "status: 418")
