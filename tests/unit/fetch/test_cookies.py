"""The cookie jar."""

import pytest

from shoal.fetch.cookies import (
    MAX_COOKIE_BYTES,
    MAX_HEADER_BYTES,
    MAX_JAR_BYTES,
    MAX_PER_DOMAIN,
    MAX_PER_SITE,
    MAX_SITES,
    Cookie,
    CookieJar,
)

NOW = 1_800_000_000.0
SITE = "https://www.example.com/shop/list"


def jar_with(*lines: str, url: str = SITE) -> CookieJar:
    jar = CookieJar()
    jar.store(url, list(lines), NOW)
    return jar


def test_an_empty_jar_sends_nothing() -> None:
    assert CookieJar().header(SITE, NOW) == ""


def test_a_cookie_goes_back_to_its_host() -> None:
    jar = jar_with("a=1", "b=2; Path=/")
    assert jar.header(SITE, NOW) == "a=1; b=2"
    assert jar.header("https://example.com/shop/", NOW) == ""
    assert jar.header("https://x.www.example.com/shop/", NOW) == ""


def test_a_cookie_is_replaced_by_its_name_and_path() -> None:
    jar = jar_with("a=1", "a=2", "a=3; Path=/")
    assert jar.header(SITE, NOW) == "a=2; a=3"


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://www.example.com/", True),
        ("https://example.com/", True),
        ("https://a.b.example.com/", True),
        ("https://badexample.com/", False),
        ("https://example.com.evil.test/", False),
    ],
)
def test_a_domain_cookie_goes_to_the_domain_and_below(url: str, sent: bool) -> None:
    jar = jar_with("a=1; Domain=.Example.com; Path=/")
    assert bool(jar.header(url, NOW)) is sent


@pytest.mark.parametrize("domain", ["com", "other.com", "x.www.example.com", "ample.com"])
def test_a_cookie_for_another_domain_is_refused(domain: str) -> None:
    jar = jar_with(f"a=1; Domain={domain}")
    assert len(jar) == 0
    assert jar.dropped == 1


def test_a_cookie_for_a_public_suffix_is_refused() -> None:
    assert len(jar_with("a=1; Domain=co.uk", url="https://shop.co.uk/")) == 0
    assert len(jar_with("a=1; Domain=github.io", url="https://someone.github.io/")) == 0


def test_an_ip_address_has_host_only_cookies() -> None:
    jar = jar_with("a=1; Domain=0.0.1", "b=2; Domain=127.0.0.1", url="http://127.0.0.1:8000/")
    assert jar.header("http://127.0.0.1:8000/", NOW) == "b=2"


@pytest.mark.parametrize(
    ("path", "sent"),
    [("/shop", True), ("/shop/", True), ("/shop/x", True), ("/shopping", False), ("/", False)],
)
def test_a_path_covers_whole_segments(path: str, sent: bool) -> None:
    jar = jar_with("a=1; Path=/shop")
    assert bool(jar.header(f"https://www.example.com{path}", NOW)) is sent


def test_longer_paths_come_first() -> None:
    jar = jar_with("a=1; Path=/", "b=2; Path=/shop/list", "c=3; Path=/shop")
    assert jar.header(SITE, NOW) == "b=2; c=3; a=1"


def test_H22_a_secure_cookie_never_travels_over_plain_http_or_to_another_port() -> None:
    jar = jar_with("s=1; Secure; Path=/", "p=2; Path=/")
    assert jar.header("https://www.example.com/", NOW) == "s=1; p=2"
    assert jar.header("http://www.example.com/", NOW) == "p=2"
    assert jar.header("https://www.example.com:8443/", NOW) == "p=2"


def test_a_secure_cookie_is_not_taken_from_nor_overwritten_by_plain_http() -> None:
    jar = jar_with("s=1; Secure; Path=/")
    jar.store("http://www.example.com/", ["s=evil; Path=/", "t=1; Secure"], NOW)
    assert jar.header("https://www.example.com/", NOW) == "s=1"
    assert jar.dropped == 2


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("__Secure-a=1; Secure", True),
        ("__Secure-a=1", False),
        ("__Host-a=1; Secure; Path=/", True),
        ("__Host-a=1; Secure; Path=/; Domain=example.com", False),
        ("__Host-a=1; Secure; Path=/shop", False),
        ("__HOST-a=1", False),
        ("__HOST-a=1; Secure; Path=/", True),
        ("__secure-a=1", False),
        ("=__Host-a=1; Secure; Path=/", False),
        ("__Host-a; Secure; Path=/", False),
        ("=__SECURE-a=1; Secure", False),
        ("=", False),
        ("", False),
        ("only-a-value", True),
        ("a=b=c", True),
    ],
)
def test_which_cookies_are_taken(line: str, taken: bool) -> None:
    assert (len(jar_with(line)) == 1) is taken


@pytest.mark.parametrize(
    ("attributes", "after"),
    [
        ("Max-Age=60", 60),
        ("Max-Age=60; Expires=Wed, 21 Oct 2099 07:28:00 GMT", 60),
        ("Expires=Fri, 15 Jan 2027 08:01:00 GMT", 60),
        ("Expires=Fri, 15-Jan-2027 08:01:00 GMT", 60),
    ],
)
def test_a_cookie_expires(attributes: str, after: float) -> None:
    jar = jar_with(f"a=1; {attributes}")
    assert jar.header(SITE, NOW + after - 1) == "a=1"
    assert jar.header(SITE, NOW + after) == ""


@pytest.mark.parametrize("attributes", ["Expires=whenever", "Max-Age=soon", "Expires=" + "9" * 5000, ""])
def test_without_a_valid_date_a_cookie_lasts_as_long_as_the_crawl(attributes: str) -> None:
    jar = jar_with(f"a=1; {attributes}")
    assert jar.header(SITE, NOW + 10**9) == "a=1"


@pytest.mark.parametrize("end", ["Max-Age=0", "Max-Age=-5", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_cookie_can_be_deleted(end: str) -> None:
    jar = jar_with("a=1", f"a=; {end}")
    assert len(jar) == 0
    assert jar.dropped == 0


def test_H16_of_ten_thousand_cookies_fifty_are_kept() -> None:
    jar = jar_with(*(f"c{n}=1" for n in range(10_000)))
    assert len(jar) == MAX_PER_DOMAIN
    assert "c9999=1" in jar.header(SITE, NOW)


def test_expired_cookies_make_room_first() -> None:
    jar = jar_with("first=1", *(f"c{n}=1; Max-Age=10" for n in range(MAX_PER_DOMAIN - 1)))
    jar.store(SITE, ["new=1"], NOW + 20)
    assert jar.header(SITE, NOW + 20) == "first=1; new=1"


def test_H17_a_cookie_of_a_megabyte_is_dropped_and_counted() -> None:
    jar = jar_with("a=" + "x" * 1_000_000, "b=" + "x" * MAX_COOKIE_BYTES, "c=1")
    assert jar.header(SITE, NOW) == "c=1"
    assert jar.dropped == 2


def test_H17_a_header_never_gets_longer_than_its_limit() -> None:
    jar = jar_with(*(f"c{n}=" + "x" * 3000 for n in range(10)))
    assert 3000 < len(jar.header(SITE, NOW)) <= MAX_HEADER_BYTES


def test_the_number_of_domains_is_bounded() -> None:
    jar = CookieJar()
    for n in range(MAX_SITES + 10):
        jar.store(f"http://h{n}/", ["a=1"], NOW)
    assert len(jar) == MAX_SITES


def test_a_jar_survives_being_written_down() -> None:
    jar = jar_with("a=1; Max-Age=100; Secure", "b=2; Domain=example.com; Path=/", "c=\u00e9")
    again = CookieJar.load(jar.dump())
    for url in (SITE, "http://example.com/", "https://www.example.com/"):
        assert again.header(url, NOW) == jar.header(url, NOW)
    assert again.header(SITE, NOW) == "a=1; c=\u00e9; b=2"


def test_the_version_grows_only_when_something_changes() -> None:
    jar = jar_with("a=1")
    before = jar.version
    jar.store(SITE, ["a=1", "b=; Max-Age=0", "bad; Domain=com"], NOW)
    assert jar.version == before
    jar.store(SITE, ["a=2"], NOW)
    assert jar.version > before


def test_the_size_of_a_cookie_counts_all_that_a_server_chooses() -> None:
    assert Cookie("name", "value", "a.test", "/path", 443).size == len("name" + "value" + "/path")


def test_the_bytes_of_a_jar_are_bounded_and_what_is_deleted_or_replaced_makes_room() -> None:
    jar = CookieJar()
    large = "v" * (MAX_COOKIE_BYTES - 10)
    for n in range(60):
        for number in range(MAX_PER_DOMAIN):
            jar.store(f"https://{n}.test/", [f"c{number}={large}"], NOW)
    assert len(jar.dump()) < 2 * MAX_JAR_BYTES
    assert jar.header("https://59.test/", NOW)
    assert not jar.header("https://0.test/", NOW)

    one = CookieJar()
    for _ in range(3 * MAX_JAR_BYTES // MAX_COOKIE_BYTES):
        one.store("https://a.test/", [f"c={large}"], NOW)
        one.store("https://b.test/", [f"c={large}"], NOW)
        one.store("https://b.test/", ["c=; Max-Age=0"], NOW)
    assert len(CookieJar.load(one.dump())) == 1


LOGIN = Cookie("login", "secret", "shop.example.com", "/", 443, secure=True)
PLAIN_LOGIN = Cookie("login", "secret", "shop.example.com", "/", 80)


@pytest.mark.parametrize("login", [LOGIN, PLAIN_LOGIN], ids=["secure", "plain"])
def test_a_cookie_of_the_user_is_never_displaced_nor_crowded_out(login: Cookie) -> None:
    jar = CookieJar()
    jar.put([login], NOW)
    shop = "https://shop.example.com/" if login.secure else "http://shop.example.com/"
    for n in range(200):  # a plain-HTTP sibling fills the site
        jar.store("http://evil.example.com/", [f"c{n}={'x' * 2000}; Domain=example.com; Path=/"], NOW)
        jar.store(f"http://{n}.evil.example.com/", ["c=1", "d=1; Domain=evil.example.com"], NOW)
    for n in range(MAX_SITES + 10):  # others fill the jar
        jar.store(f"https://h{n}/", ["a=1; Secure"], NOW)
    for n in range(60):
        for number in range(MAX_PER_DOMAIN):
            jar.store(f"https://{n}.test/", [f"c{number}={'v' * 4000}"], NOW)
    assert jar.header(shop, NOW).startswith("login=secret")
    assert len(jar.dump()) < 2 * MAX_JAR_BYTES


def test_only_its_own_host_replaces_or_deletes_a_cookie_of_the_user() -> None:
    for url, line, value in [
        ("https://evil.example.com/", "login=tossed; Domain=example.com; Path=/", "secret"),
        ("http://shop.example.com/", "login=plain; Path=/", "secret"),
        ("https://evil.shop.example.com/", "login=; Domain=shop.example.com; Path=/; Max-Age=0", "secret"),
        ("https://shop.example.com/", "login=renewed; Path=/; Secure", "renewed"),
    ]:
        jar = CookieJar()
        jar.put([LOGIN], NOW)
        jar.store(url, [line], NOW)
        assert jar.header("https://shop.example.com/", NOW).split("; ")[0] == f"login={value}"
        assert b"login" not in jar.dump() or value == "secret"


@pytest.mark.parametrize("url", ["http://shop.example.com/", "https://shop.example.com:8443/"])
def test_a_cookie_of_the_user_goes_to_its_own_origin_only(url: str) -> None:
    jar = CookieJar()
    jar.put([LOGIN], NOW)
    assert jar.header(url, NOW) == ""
    jar = CookieJar()
    jar.put([PLAIN_LOGIN], NOW)
    assert bool(jar.header(url, NOW)) is (url == "http://shop.example.com/")


def test_a_jar_is_written_without_the_cookies_of_the_user_unless_asked() -> None:
    jar = CookieJar()
    jar.put([LOGIN], NOW)
    jar.store(SITE, ["a=1"], NOW)
    assert b"secret" not in jar.dump()
    again = CookieJar.load(jar.dump(given=True))
    for n in range(500):
        again.store("https://shop.example.com/", [f"c{n}=1; Secure"], NOW)
    assert again.header("https://shop.example.com/", NOW).startswith("login=secret")


def test_a_site_displaces_only_its_own_cookies_insecure_and_unused_ones_first() -> None:
    jar = CookieJar()
    jar.store("https://other.test/", ["other=1"], NOW)
    jar.store("https://www.site.test/", ["secure=1; Secure; Domain=site.test"], NOW)
    jar.store("https://www.site.test/", ["old=1", "used=1"], NOW)
    for n in range(MAX_PER_SITE - 1):
        jar.store(f"http://{n}.site.test/", ["c=1"], NOW)
        assert "used=1" in jar.header("https://www.site.test/", NOW + n)
    assert jar.header("https://other.test/", NOW) == "other=1"
    assert "secure=1" in jar.header("https://www.site.test/", NOW)
    for n in range(MAX_PER_SITE):
        jar.store(f"https://{n}.site.test/", ["c=1; Secure"], NOW)
    assert len(jar) <= MAX_PER_SITE + 1
    assert jar.header("https://other.test/", NOW) == "other=1"
