"""What a robots.txt asks of us: the vectors of RFC 9309, and files that mean no good."""

import math
import random
import re
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fetch.robots_txt import MAX_BYTES, MAX_PATTERN_PIECES, RobotsRules, parse, product_token


def rules(text: str, token: str = "shoal") -> RobotsRules:
    return parse(text.encode(), token)


def allowed(text: str, path: str, token: str = "shoal") -> bool:
    return rules(text, token).allows(path)


EXAMPLE = """
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("token", "path", "answer"),
    [
        ("other", "/a.gif", False),
        ("other", "/a.gif?x", True),
        ("other", "/example/page.html", False),
        ("other", "/publications/", True),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/other", False),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/a.gif", True),
        ("quxbot", "/example/page.html", True),
    ],
)
def test_R07_the_example_of_the_standard(token: str, path: str, answer: bool) -> None:
    assert allowed(EXAMPLE, path, token) is answer


@pytest.mark.parametrize(
    ("lines", "path", "answer"),
    [
        # longest match, whatever the order
        (
            "Allow: /example/page/\nDisallow: /example/page/disallowed.gif",
            "/example/page/disallowed.gif",
            False,
        ),
        ("Disallow: /folder\nAllow: /folder/page", "/folder/page", True),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
        ("Allow: /$\nDisallow: /", "/", True),
        ("Allow: /$\nDisallow: /", "/page.htm", False),
        # Allow wins a tie
        ("Disallow: /folder\nAllow: /folder", "/folder/page", True),
        ("Allow: /a*\nDisallow: /ab", "/ab", True),
        # `$` and `*`
        ("Disallow: /fish*.php", "/fish.php", False),
        ("Disallow: /fish*.php", "/fishheads/catfish.php?parameters", False),
        ("Disallow: /fish*.php", "/Fish.PHP", True),
        ("Disallow: /*.php$", "/filename.php", False),
        ("Disallow: /*.php$", "/filename.php?x", True),
        ("Disallow: /*.php$", "/filename.php/", True),
        ("Disallow: /a$b", "/a$b", False),
        ("Disallow: /*${x}/", "/a/${x}/b", False),
        ("Disallow: /a%2A", "/ab", True),
        ("Disallow: /a%24", "/a$b", False),
        ("Disallow: /a%2A", "/a*b", False),
        ("Disallow: /a**b", "/axxb", False),
        ("Disallow: /fish*", "/fish", False),
        ("Disallow: *", "/anything", False),
        ("Disallow: /a*b*c$", "/abcbc", False),
        ("Disallow: /ab*b$", "/ab", True),  # one letter cannot match twice
        ("Disallow: /ab*b$", "/abb", False),
        ("Disallow: /a*bc*c$", "/abc", True),
        ("Disallow: /", "/ab", False),
        ("Allow: /ab*b$\nDisallow: /ab", "/ab", False),
        # escapes
        ("Disallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", False),
        ("Disallow: /foo/bar/%E3%83%84", "/foo/bar/%e3%83%84", False),
        ("Disallow: /foo/bar/%62%61%7A", "/foo/bar/baz", False),
        ("Disallow: /a%3cd.html", "/a%3Cd.html", False),
        ("Disallow: /a%2fb.html", "/a/b.html", True),
        ("Disallow: /%7ejoe/", "/~joe/index.html", False),
        ("Disallow: /a b", "/a%20b", False),
        # case of paths, forms of lines
        ("Disallow: /Path", "/path", True),
        ("DISALLOW : /path # why not", "/path", False),
        ("Disallow:", "/path", True),
        ("Disallow: path", "/path", True),
        ("dissallow: /path", "/path", False),
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /a?b=", "/a?b=1", False),
    ],
)
def test_R07_which_rule_decides(lines: str, path: str, answer: bool) -> None:
    assert allowed(f"User-agent: *\n{lines}", path) is answer


def test_R07_groups_for_the_same_agent_are_joined() -> None:
    text = "User-agent: shoal\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: SHOAL\nDisallow: /b"
    assert [allowed(text, path) for path in ("/a", "/b", "/c")] == [False, False, True]


def test_lines_that_are_not_rules_do_not_end_a_group_of_agents() -> None:
    text = "User-agent: a\n\n# comment\nSitemap: https://x.test/s.xml\nUser-agent: shoal\nDisallow: /x"
    assert not allowed(text, "/x")
    assert rules(text).sitemaps == ("https://x.test/s.xml",)


def test_a_rule_without_an_agent_is_ignored() -> None:
    assert allowed("Disallow: /\nUser-agent: other\nDisallow: /", "/x")


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("Shoal", True),
        ("shoal/2.0", True),
        ("SHOAL (the crawler)", True),
        ("sho", False),
        ("shoalbot", False),
        ("shoal-images", False),
        ("my shoal", False),
        ("ｓhoal", False),
        ("Shoal\u0430", True),  # a product token ends at the first character that cannot be in one
        ("*shoal", False),
        ("", False),
    ],
)
def test_R11_the_product_token_matches_exactly(line: str, ours: bool) -> None:
    assert allowed(f"User-agent: {line}\nDisallow: /", "/x") is not ours


def test_R11_ten_thousand_agents_may_share_a_group() -> None:
    agents = "".join(f"User-agent: bot{'x' * (n % 50)}\n" for n in range(10_000))
    assert not allowed(agents + "User-agent: shoal\nDisallow: /x", "/x")


def test_our_own_group_replaces_the_one_for_everybody() -> None:
    text = "User-agent: *\nDisallow: /\nCrawl-delay: 9\n\nUser-agent: shoal\nDisallow: /private"
    assert allowed(text, "/x")
    assert rules(text).delay is None
    assert rules(text, "other").delay == 9


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_R06_every_line_ending_counts(ending: str) -> None:
    text = ending.join(["User-agent: *", "Disallow: /x", ""])
    assert [allowed(text, path) for path in ("/x", "/y")] == [False, True]


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbfUser-agent: *\nDisallow: /x",
        b"caf\xe9\nUser-agent: *\nDisallow: /x\n\xff\xfe",
        b"\0\0\nUser-agent: *\nDisallow: /x\nDisallow: /\0y",
        b":::\n:\nUser-agent: *\n\n\nDisallow: /x\nno colon here",
    ],
    ids=["BOM", "latin-1", "NUL", "noise"],
)
def test_R06_readable_lines_of_a_broken_file_count(body: bytes) -> None:
    read = parse(body, "shoal")
    assert not read.allows("/x")
    assert read.allows("/z")


def test_unknown_lines_do_not_end_a_series_of_agents() -> None:
    text = "User-agent: shoal\nNoindex: /x\nUser-agent: *\nDisallow: /"
    assert not allowed(text, "/x")


def test_a_crawl_delay_ends_the_head_of_a_group() -> None:
    text = "User-agent: *\nCrawl-delay: 5\n\nUser-agent: other\nDisallow: /"
    assert allowed(text, "/x")
    assert rules(text).delay == 5


@pytest.mark.parametrize(("line", "answer"), [("Disallow /x", False), ("Disallow x /x", True), ("/x", True)])
def test_a_missing_colon_is_forgiven_where_the_meaning_is_plain(line: str, answer: bool) -> None:
    assert allowed(f"User-agent shoal\n{line}", "/x") is answer


@pytest.mark.parametrize(
    "page", ["<!doctype html>\n<p>User-agent: *\nDisallow: /", "  <html>\nUser-agent: *\nDisallow: /"]
)
def test_R06_an_html_page_has_no_rules(page: str) -> None:
    assert allowed(page, "/x")


def test_R06_rules_behind_an_html_comment_count() -> None:
    assert not allowed("<!-- version 7 -->\n\nUser-agent: *\nDisallow: /", "/x")


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("10", 10.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("-1", None),
        ("nan", None),
        ("soon", None),
        ("1e9", 1e9),
        ("inf", math.inf),
    ],
)
def test_a_crawl_delay_is_read_within_reason(value: str, delay: float | None) -> None:
    assert rules(f"User-agent: *\nCrawl-delay: {value}").delay == delay


def test_only_the_first_part_of_a_huge_file_is_read() -> None:
    text = "User-agent: *\nDisallow: /early\n" + "#" * MAX_BYTES + "\nDisallow: /late"
    assert [allowed(text, path) for path in ("/early", "/late")] == [False, True]


def test_R05_a_file_full_of_rules_keeps_them_all() -> None:
    read = rules("User-agent: *\n" + "".join(f"Disallow: /p{n}/\n" for n in range(25_000)))
    assert not read.allows("/p24999/x")
    assert read.allows("/p25000/x")


def test_R05_beyond_the_bound_patterns_become_stricter_never_laxer() -> None:
    lines = "".join(f"Disallow: /d{n:05}*x\nAllow: /a{n:05}*x\n" for n in range(MAX_PATTERN_PIECES))
    read = rules("User-agent: *\nDisallow: /a\n" + lines)
    first, last = "00000", f"{MAX_PATTERN_PIECES - 1:05}"
    assert [read.allows(f"/d{first}-{end}") for end in "xy"] == [False, True]
    assert [read.allows(f"/a{first}-{end}") for end in "xy"] == [True, False]
    assert [read.allows(f"/d{last}-{end}") for end in "xy"] == [False, False]
    assert [read.allows(f"/a{last}-{end}") for end in "xy"] == [False, False]


def test_R05_patterns_made_to_backtrack_do_not() -> None:
    read = rules(f"User-agent: *\nDisallow: /{'*a' * 600}$\nDisallow: /{'a*' * 300}b")
    assert read.allows("/" + "a" * 800 + "c")  # exponential, if it did


PIECES = (
    "User-agent: *", "User-agent: shoal", "User-agent:", "Disallow: /", "Disallow:", "Allow: /", "Allow: /a*b$", "*", "$",
    "Crawl-delay: 1e308", "Sitemap: x", "%e9", "%", "%2", "é", "/a", "aaaa", " ", "\t", "#", ":", "\r", "\n", "\r\n", "\0",
    "\ufeff", "\u2028",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_no_file_takes_long_or_much_memory_to_read_or_to_ask(seed: int) -> None:
    dice = random.Random(seed)
    few = dice.sample(
        PIECES, dice.randrange(1, 5)
    )  # few different ones repeat often: what quadratic code needs
    text = "".join(dice.choices([*few, "\n"], k=dice.choice((100, 40_000, 200_000))))
    body = ("User-agent: *\n" + text).encode()[:MAX_BYTES]
    paths = ["/", "/" + "a" * 4_000, "/" + "%C3%A9" * 600, "/" + "ab" * 2_000]

    began = time.process_time()
    read = parse(body, "shoal")
    verdicts = [read.allows(path) for path in paths]
    took = time.process_time() - began

    assert all(isinstance(verdict, bool) for verdict in verdicts)
    assert took < 3.0  # measured: 0.6 s at most; quadratic code takes minutes
    assert read.weight < 32 * MAX_BYTES
    if seed < 3:  # tracing makes it ten times slower
        tracemalloc.start()
        parse(body, "shoal")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 256 * MAX_BYTES


def test_repeated_agents_before_many_rules_are_read_once() -> None:
    agents = "User-agent: *\nUser-agent: shoal\n" * 2_000
    lines = "".join(f"Disallow: /{number}\n" for number in range(8_000))
    began = time.process_time()
    read = rules(agents + lines)
    assert time.process_time() - began < 2.0  # it took 14 s when each agent line repeated the rules
    assert not read.allows("/7999")


def test_a_rule_that_is_cut_off_never_allows_more() -> None:
    text = b"User-agent: *\nDisallow: /\nAllow: /public/only\n"
    cut = len(text) - len("lic/only\n")
    assert not parse(text, "shoal", max_bytes=cut).allows("/pub")
    assert parse(text, "shoal").allows("/public/only")
    assert not parse(b"User-agent: *\nDisallow: /private", "shoal", max_bytes=28).allows("/private")


PREFIXES = st.lists(st.text("ab", max_size=6).map(lambda s: "/" + s), min_size=1, max_size=12)


@given(PREFIXES, st.text("abc", max_size=8).map(lambda s: "/" + s))
def test_the_longest_prefix_decides(prefixes: list[str], path: str) -> None:
    kinds = {prefix: number % 2 == 0 for number, prefix in enumerate(prefixes)}
    text = "".join(f"{'Allow' if allow else 'Disallow'}: {prefix}\n" for prefix, allow in kinds.items())
    matching = [prefix for prefix in kinds if path.startswith(prefix)]
    assert allowed("User-agent: *\n" + text, path) is (kinds[max(matching, key=len)] if matching else True)


PATTERN = st.text("ab*", max_size=8).map(lambda s: "/" + s)


@given(PATTERN, st.booleans(), st.text("ab", max_size=12).map(lambda s: "/" + s))
def test_a_pattern_means_what_the_same_regular_expression_means(
    pattern: str, anchored: bool, path: str
) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*"))) + ("$" if anchored else "")
    text = f"User-agent: *\nDisallow: {pattern}{'$' if anchored else ''}"
    assert allowed(text, path) is not bool(re.match(expression, path))


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("Shoal/0.1.0 (+https://shoal.example/bot)", "shoal"),
        ("My-Bot", "my-bot"),
        ("Mozilla/5.0 (compatible; ExampleBot/1.0; +https://x.test)", "examplebot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko", "mozilla"),
        ("", ""),
    ],
)
def test_our_token_comes_from_the_user_agent(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token
