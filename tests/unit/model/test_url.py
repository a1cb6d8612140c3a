"""URLs: the string fast paths agree with the parser, and identity ignores what does not make another page."""

import re

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.model.errors import Rejected
from shoal.model.url import canonical, fingerprint_of, host_key, join, origin_of, resolver, site_of

BASES = [
    "https://books.example/",
    "https://books.example/catalogue/x/index.html",
    "http://127.0.0.1:8080/a/b/?q=1&r=/x/../y",
    "https://[2001:db8::1]:8443/a",
    "http://xn--bcher-kva.example/b/c;d",
    "https://a.example//double//slash",
    "https://a.example/?only=query",
]


def by_the_parser(base: str, href: str) -> str | None:
    """The long way, with a URL object: what the fast paths must equal."""
    try:
        return without_extras(ada_url.URL(href, base))
    except ValueError:
        return None


def without_extras(url: ada_url.URL) -> str:
    del url.hash
    if url.username or url.password:
        url.username = url.password = ""
    return re.sub(
        r"^(https?://[^/?]*[^/?.:])\.+(?=[:/?]|$)", r"\1", str(url.href)
    )  # `a.example.` is `a.example`


# Pieces that links are made of, those that trip string handling up among them.
PIECES = [
    *(
        "/",
        "//",
        ".",
        "..",
        "./",
        "../",
        "/.",
        "/..",
        "?",
        "#",
        ":",
        "@",
        "&",
        "=",
        ";",
        "%",
        "%2e",
        "%2E",
        "%20",
        "%zz",
    ),
    *(
        "\\",
        "\t",
        "\n",
        " ",
        "\x00",
        "'",
        '"',
        "<",
        "|",
        "^",
        "`",
        "{",
        "[",
        "]",
        "é",
        "ß",
        "。",
        "\ud800",
        "\U0001f41f",
    ),
    *(
        "http:",
        "https:",
        "http://",
        "https://",
        "HTTP://",
        "mailto:",
        "javascript:",
        "data:",
        "file:",
        "ws://",
    ),
    *(
        "books.example",
        "BOOKS.example",
        "xn--bcher-kva.example",
        "xn--",
        "127.0.0.1",
        "0x7f.1",
        "256.1.1.1",
        "1",
    ),
    *(":80", ":443", ":8080", ":65535", ":65536", ":080", ":", "user@", "user:secret@"),
    *("a", "b", "index.html", "page-2", "q=1", "utm_source=x", "~user", "a.b", "-", "_"),
]
hrefs = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(max_size=12))


@given(st.sampled_from(BASES), hrefs)
@example("https://a.example/b", "//other.example/x")
@example("https://a.example/b", "https:/x")
@example("https://a.example/b", "https://a.example")
@example("https://a.example/b", "http://1.2.3.4:443/")
@example("http://a.example/b", "http://1.2.3.04/")
@example("http://a.example/b", "/x?")
def test_joining_agrees_with_the_parser_for_every_link(base: str, href: str) -> None:
    assert join(base, href) == by_the_parser(base, href)


@given(hrefs, hrefs)
def test_joining_agrees_with_the_parser_for_every_base(base: str, href: str) -> None:
    assert join(base, href) == by_the_parser(base, href)


@given(st.one_of(hrefs, st.tuples(st.sampled_from(BASES), hrefs).map("".join)))
@example("data:a b  #x")
@example("foo://user@host?x")
@example("web+demo:/.//not-a-host@x/")
def test_a_canonical_url_is_the_parsers_and_stays_as_it_is(url: str) -> None:
    try:
        found = canonical(url)
    except Rejected:
        assert not ada_url.check_url(url)
        return
    assert found == without_extras(ada_url.URL(url))
    assert canonical(found) == found


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("/a/b.html", "https://books.example/a/b.html"),
        ("c.html#top", "https://books.example/catalogue/x/c.html"),
        ("?page=2", "https://books.example/catalogue/x/index.html?page=2"),
        ("", "https://books.example/catalogue/x/index.html"),
        ("#top", "https://books.example/catalogue/x/index.html"),
        ("../y/", "https://books.example/catalogue/y/"),
        ("//cdn.example/z", "https://cdn.example/z"),
        ("HTTP://User:secret@Books.EXAMPLE:80/%7e", "http://books.example/%7e"),
        (" /a b\n", "https://books.example/a%20b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("mailto:me@books.example", "mailto:me@books.example"),
        ("http://[::1", None),
        ("https://a.example:65536/", None),
        ("\ud800", None),
    ],
)
def test_links_resolve_like_in_a_browser(href: str, expected: str | None) -> None:
    assert resolver("https://books.example/catalogue/x/index.html?q=1")(href) in (
        expected,
        f"{expected}?q=1",  # a link to the page itself keeps the page's query
    )


def test_dot_segments_are_resolved() -> None:
    assert canonical("http://a.test/x/../y") == "http://a.test/y"
    assert canonical("http://a.test/x/./y") == "http://a.test/x/y"
    assert join("http://a.test/x/y/z", "..") == "http://a.test/x/"
    assert join("http://a.test/x/y/z", "../..") == "http://a.test/"
    assert join("http://a.test/x/y/z", ".") == "http://a.test/x/y/"


def test_a_link_to_the_page_itself_keeps_its_query() -> None:
    assert join("https://a.example/x?q=1", "#top") == "https://a.example/x?q=1"


def test_nothing_can_be_joined_to_what_is_not_a_url() -> None:
    assert join("not a url", "/x") is None


@pytest.mark.parametrize("url", ["", "books.example", "http://", "http://a b/", "https://a:99999/", "\udfff"])
def test_an_invalid_url_is_rejected_by_name(url: str) -> None:
    with pytest.raises(Rejected, match="not a valid URL"):
        canonical(url)


parameters = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("123")).map("=".join),
    max_size=5,
    unique_by=lambda p: p[0],
)
tracking = st.lists(
    st.sampled_from(["utm_source=x", "utm_id", "gclid=1", "fbclid=", "msclkid=2"]), max_size=3
)


@given(parameters, tracking, st.randoms(use_true_random=False))
def test_identity_ignores_parameter_order_and_tracking(
    wanted: list[str], noise: list[str], random: object
) -> None:
    def url(query: list[str]) -> str:
        return "https://a.example/p" + ("?" + "&".join(query) if query else "")

    mixed = [*wanted, *noise]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert fingerprint_of("GET", url(mixed)) == fingerprint_of("GET", url(wanted))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/p", "https://a.example/P"),
        ("https://a.example/p", "https://a.example/p/"),
        ("https://a.example/p", "http://a.example/p"),
        ("https://a.example/p?a=1", "https://a.example/p?a=2"),
        ("https://a.example/p?a=1&a=2", "https://a.example/p?a=2&a=1"),
        ("https://a.example/p?a=1", "https://a.example/p?a=1&b"),
    ],
)
def test_pages_that_may_differ_have_different_identities(one: str, other: str) -> None:
    assert fingerprint_of("GET", one) != fingerprint_of("GET", other)


def test_method_and_body_belong_to_the_identity() -> None:
    url = "https://a.example/p"
    prints = {
        fingerprint_of("GET", url),
        fingerprint_of("POST", url),
        fingerprint_of("POST", url, b"a"),
        fingerprint_of("POST", url, b"b"),
    }
    assert len(prints) == 4


@given(hrefs)
def test_a_fingerprint_fits_a_signed_64_bit_column(url: str) -> None:
    found = join("https://a.example/", url)
    assert 0 <= fingerprint_of("GET", found or "https://a.example/") < 2**63


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com.:8080/a", "http://example.com:8080/a"),
        ("http://EXAMPLE.com..?x=1", "http://example.com/?x=1"),
        ("https://u:p@example.com./", "https://example.com/"),
        ("http://127.0.0.1./", "http://127.0.0.1/"),
        ("http://[::1]/.", "http://[::1]/"),
        ("http://example.com/a./b.", "http://example.com/a./b."),
        ("http://example.com/?q=a./", "http://example.com/?q=a./"),
    ],
)
def test_a_dot_at_the_end_of_a_host_makes_no_other_host(url: str, expected: str) -> None:
    assert canonical(url) == expected
    assert join("http://other.test/", url) == expected
    assert host_key(canonical(url)) == host_key(expected)
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("www.example.com", "example.com"),
        ("a.b.example.co.uk:8080", "example.co.uk"),
        ("example.com", "example.com"),
        ("one.github.io", "one.github.io"),
        ("co.uk", "co.uk"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
        ("[::1]", "[::1]"),
        ("localhost:8080", "localhost:8080"),
        ("", ""),
    ],
)
def test_a_site_is_a_registrable_domain(host: str, site: str) -> None:
    assert site_of(host) == site


def test_a_key_changes_every_fingerprint() -> None:
    one, other = b"1" * 16, b"2" * 16
    url = "https://books.example/a"
    found = {fingerprint_of("GET", url, b"", key) for key in (b"", one, other)}
    assert len(found) == 3
    assert all(0 <= fingerprint < 2**63 for fingerprint in found)
    assert fingerprint_of("GET", f"{url}?b=1&a=2&gclid=3", b"", one) == fingerprint_of(
        "GET", f"{url}?a=2&b=1", b"", one
    )


def test_the_fingerprint_of_a_page_never_changes_between_releases() -> None:
    # Stores on disk hold these: another value here would make every known page new.
    assert fingerprint_of("GET", "https://books.example/a?b=2&a=1&utm_medium=x") == 820316579979721361
    assert fingerprint_of("POST", "https://books.example/", b"q=1") == 3734957836561273034


@pytest.mark.parametrize(
    ("url", "host", "origin"),
    [
        ("https://books.example/a?b=/c", "books.example", "https://books.example"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://[::1]:8443/x", "[::1]:8443", "https://[::1]:8443"),
        ("foo://host?q", "host", "foo://host"),
        ("mailto:a@b.example", "", ""),
        ("data:text/html,//x/y", "", ""),
    ],
)
def test_host_and_origin_are_read_off_a_canonical_url(url: str, host: str, origin: str) -> None:
    assert host_key(url) == host
    assert origin_of(url) == origin
