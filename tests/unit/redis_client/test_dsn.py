"""Where a Redis store is: what a DSN may say, and what is never repeated from it."""

from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured
from shoal.redis_client.dsn import Address, Login, parse

SECRET = "hunter2"


def test_a_plain_dsn_names_a_server_and_a_database() -> None:
    dsn = parse("redis://10.0.0.7:7000/3")

    assert (dsn.addresses, dsn.database, dsn.tls) == ((Address("10.0.0.7", 7000),), 3, False)
    assert dsn.namespace == "shoal"


def test_what_is_left_out_is_the_default_of_redis() -> None:
    assert parse("redis://").addresses == (Address("127.0.0.1", 6379),)
    assert parse("redis+sentinel://a,b:1/mymaster").addresses == (Address("a", 26379), Address("b", 1))


def test_a_user_and_a_password_may_hold_any_character() -> None:
    assert parse("redis://crawler:p%40ss%2Fw%3Ard@h").login == Login("crawler", "p@ss/w:rd")
    assert parse("redis://:only@h").login == Login("", "only")


def test_a_password_may_be_in_a_file_that_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    login = parse(f"redis://crawler@h?password_file={file}").login
    with pytest.raises(Misconfigured, match="cannot be read: No such file"):
        login.secret()
    for password in ("first", "second with a blank "):
        file.write_text(f"{password}\n")
        assert (login.user, login.secret()) == ("crawler", password)


def test_tls_is_asked_for_by_the_scheme_or_by_an_option() -> None:
    assert parse("rediss://h?ca_file=/etc/ca.pem").ca_file == "/etc/ca.pem"
    shown = parse("redis+cluster://h?tls=1&cert_file=/c.pem&key_file=/k.pem")
    assert (shown.cert_file, shown.key_file) == ("/c.pem", "/k.pem")
    assert parse("rediss://h").tls
    assert parse("redis+cluster://h?tls=1").tls


def test_sentinels_have_a_service_and_may_have_a_login_of_their_own() -> None:
    dsn = parse("redis+sentinel://u:p@a,b/mymaster?sentinel_password=q")

    assert (dsn.service, dsn.login, dsn.sentinel_login) == ("mymaster", Login("u", "p"), Login("", "q"))


def test_a_bus_has_an_address_of_its_own_that_is_never_shown() -> None:
    dsn = parse(f"redis://h/1?bus=nats://u:{SECRET}@b:4222&namespace=x")

    assert (dsn.bus, dsn.namespace, dsn.database) == (f"nats://u:{SECRET}@b:4222", "x", 1)
    assert SECRET not in f"{dsn} {dsn!r}"


def test_a_socket_is_named_by_its_path() -> None:
    dsn = parse("redis+unix:///run/redis.sock?db=2")

    assert (dsn.addresses, dsn.database) == ((Address("/run/redis.sock"),), 2)


def test_an_address_of_version_6_keeps_its_brackets() -> None:
    [address] = parse("redis://[::1]:7000").addresses

    assert (address, str(address)) == (Address("::1", 7000), "[::1]:7000")


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("amqp://h", "no backend for 'amqp'"),
        ("redis://h?ca_file=/f", "ca_file is for TLS"),
        ("redis+cluster://h?cert_file=/f", "cert_file is for TLS"),
        ("rediss://h?key_file=/f", "key_file needs cert_file"),
        ("redis://u:p@h?password_file=/f", "a password and a password_file"),
        ("redis://h:port", "a port in the DSN"),
        ("redis://h:99999", "a port in the DSN"),
        ("redis://h/books", "the database in the DSN"),
        ("redis://a,b", "has one server"),
        ("redis+sentinel://a", "must end with the name of the master"),
        ("redis+cluster://a?db=1", "one database"),
        ("redis+unix://", "the path of a socket"),
        ("redis://h?colour=red", "unknown option 'colour'"),
        ("redis://h?namespace=a{b}", "namespace"),
        ("redis://h?patience_s=long", "patience_s"),
    ],
)
def test_a_dsn_that_cannot_be_is_refused_by_its_part(dsn: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        parse(dsn)


@pytest.mark.parametrize(
    "text", [f"redis://u:{SECRET}@h", f"redis+sentinel://h/m?sentinel_password={SECRET}"]
)
def test_a_password_is_never_shown(text: str) -> None:
    dsn = parse(text)

    assert SECRET not in f"{dsn} {dsn!r} {dsn.login} {dsn.sentinel_login}"


@pytest.mark.parametrize(
    "text", [f"redis://u:{SECRET}@h:x", f"redis://u:{SECRET}@h?what=1", f"rediss://u:{SECRET}@a,b"]
)
def test_a_complaint_does_not_repeat_the_password(text: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse(text)

    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
