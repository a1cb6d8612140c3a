import pytest

from shoal.archive.redaction import redact_body, redact_cookie
from shoal.model.http.header_names import is_secret


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
        "X-Shop-Pass",
        "Ocp-Apim-Subscription-Key",
        "Sec-WebSocket-Key",
    ],
)
def test_headers_that_carry_credentials_are_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["Host", "User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "Referer"]
)
def test_other_headers_are_not_secret(name: str) -> None:
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
    assert redact_cookie(cookie) == kept


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"user=ann&password=s3cret&go=1", b"user=ann&password=redacted&go=1"),
        (b"csrf_token=s3cret", b"csrf_token=redacted"),
        (
            b'{"user": "ann", "Password": "s3\\"cret", "n": 1}',
            b'{"user": "ann", "Password": "redacted", "n": 1}',
        ),
        (b'[{"api_key":"s3cret"}]', b'[{"api_key":"redacted"}]'),
        (
            b'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\ns3cret\r\n'
            b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nfish\r\n--b--\r\n',
            b'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nredacted\r\n'
            b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nfish\r\n--b--\r\n',
        ),
    ],
)
def test_a_body_keeps_the_names_of_credentials_only(body: bytes, kept: bytes) -> None:
    assert redact_body(body) == kept


@pytest.mark.parametrize(
    "body", [b"", b"q=shoal&author=ann", b'{"q": "password"}', b"\x00\xff=&&", b"password"]
)
def test_other_bodies_are_unchanged(body: bytes) -> None:
    assert redact_body(body) == body
