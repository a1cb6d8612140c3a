"""Cookies that a user gives to a crawl."""

from pathlib import Path

import pytest

from shoal.fetch.cookies import Cookie, CookieJar
from shoal.fetch.given_cookies import cookies_for_seeds, read_cookie_file
from shoal.model.errors import Misconfigured

NOW = 1_800_000_000.0
FILE = """# Netscape HTTP Cookie File

.example.com\tTRUE\t/\tFALSE\t0\twide\t1
shop.example.com\tFALSE\t/cart\tFALSE\t1900000000\tnarrow\t2
#HttpOnly_example.com\tFALSE\t/\tTRUE\t0\tsafe\t3
old.example.com\tFALSE\t/\tFALSE\t1000000000\told\t4
"""


def jar_of(cookies: list[Cookie]) -> CookieJar:
    jar = CookieJar()
    jar.put(cookies, NOW)
    return jar


def test_cookies_by_name_go_to_the_hosts_of_the_seeds_only() -> None:
    jar = jar_of(list(cookies_for_seeds({"id": "7"}, ["http://a.test/x", "https://b.test/"])))
    assert jar.header("http://a.test/anything", NOW) == "id=7"
    assert jar.header("https://b.test/", NOW) == "id=7"
    assert jar.header("http://b.test/", NOW) == ""  # its seed says https
    assert jar.header("http://www.a.test/", NOW) == ""


def test_a_cookie_of_the_user_replaces_what_the_server_had_set() -> None:
    jar = CookieJar()
    jar.store("https://a.test/", ["id=servers; Path=/; Secure"], NOW)
    jar.put(cookies_for_seeds({"id": "users"}, ["https://a.test/"]), NOW)
    assert jar.header("https://a.test/", NOW) == "id=users"


def test_a_file_of_cookies_is_read_as_browsers_write_it(tmp_path: Path) -> None:
    file = tmp_path / "cookies.txt"
    file.write_text(FILE, "utf-8-sig")
    jar = jar_of(read_cookie_file(str(file)))
    assert jar.header("http://x.example.com/", NOW) == "wide=1"
    assert jar.header("http://shop.example.com/cart/1", NOW) == "narrow=2; wide=1"
    assert jar.header("https://example.com/", NOW) == "wide=1; safe=3"
    assert jar.header("http://old.example.com/", NOW) == "wide=1"


@pytest.mark.parametrize(
    "line", ["secret", "a.test\tTRUE\t/\tFALSE\tsoon\tn\tsecret", "a\tb\tc\td\t0\tf\tsecret"]
)
def test_an_invalid_line_is_named_and_not_shown(tmp_path: Path, line: str) -> None:
    file = tmp_path / "cookies.txt"
    file.write_text(f"# comment\n{line}\n")
    with pytest.raises(Misconfigured, match=r"cookies\.txt:2: ") as caught:
        read_cookie_file(str(file))
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_not_named_because_it_may_be_a_cookie(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"crawl\.cookie_file: cannot be read: No such file"):
        read_cookie_file(str(tmp_path / "none.txt"))


def test_C05_a_file_that_is_not_a_cookie_file_is_refused(tmp_path: Path) -> None:
    empty, huge = tmp_path / "empty.txt", tmp_path / "huge.txt"
    empty.touch()
    with huge.open("wb") as file:
        file.truncate(1 << 30)
    for path, told in (
        (empty, "no cookie in it"),
        (huge, "larger than 4 MiB"),
        (tmp_path, "not a file"),
        (Path("/dev/zero"), "not a file"),
    ):
        with pytest.raises(Misconfigured, match=rf"crawl\.cookie_file: {path}: {told}"):
            read_cookie_file(str(path))


@pytest.mark.parametrize(("mode", "told"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_C05_a_world_readable_file_is_logged_with_the_command_that_fixes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, told: int
) -> None:
    file = tmp_path / "cookies.txt"
    file.write_text("a.test\tTRUE\t/\tFALSE\t0\tn\tsecret\n")
    file.chmod(mode)
    assert len(read_cookie_file(str(file))) == 1
    assert [record.message for record in caplog.records] == ["cookies.world_readable"] * told
    assert "secret" not in caplog.text
