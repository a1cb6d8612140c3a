import pytest

from shoal.archive.secrets import is_secret, without_value


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "authorization",
        "Cookie",
        "Proxy-Authorization",
        "X-Api-Key",
        "x-auth-token",
        "X-CSRF-Token",
    ],
)
def test_headers_that_carry_credentials_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["Host", "User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "Referer"]
)
def test_other_headers_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("cookie", "kept"),
    [
        ("sid=s3cret; Path=/; HttpOnly", "sid=redacted; Path=/; HttpOnly"),
        ("sid=s3cret", "sid=redacted"),
        ("sid=a=b==; Secure", "sid=redacted; Secure"),
        ("s3cret", "redacted"),
        ("s3cret; Secure", "redacted; Secure"),
        ("", "redacted"),
    ],
)
def test_a_cookie_keeps_its_name_and_attributes_only(cookie: str, kept: str) -> None:
    assert without_value(cookie) == kept
