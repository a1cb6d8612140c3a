"""Which places may be connected to."""

import pytest

from shoal.fetch.http.guard import BAD_PORTS, Guard, Origin, is_ip_literal
from shoal.model.configuration.address_ranges import PRIVATE as PRIVATE_RANGES
from shoal.model.configuration.address_ranges import address_range, address_ranges
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "2a00:1450:4001:80b::200e"]
PRIVATE = [
    "127.0.0.1",
    "127.8.9.10",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "::1",
    "fd12::1",
]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "100.64.0.1",
    "169.254.169.254",  # cloud metadata
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.1.2.3",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "2001:2::1",
    "5f00::1",
    "fd00:ec2::254",  # cloud metadata
    "fd20:ce::254",  # of other clouds
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "fd12:3456::a9fe:a9fe",
    "100.100.100.200",
    "64:ff9b:1::7f00:1",
    "::ffff:0:127.0.0.1",  # IPv4 translated
    "not an address",
    "",
]
DISGUISED = [
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "2002:7f00:1::",  # 6to4 of 127.0.0.1
    "2002:a9fe:a9fe::1",
    "64:ff9b::7f00:1",  # NAT64
    "64:ff9b::a00:1",
    "2001:0:7f00:1::",  # Teredo with a loopback server
    "2600::5efe:127.0.0.1",  # ISATAP
    "2600::200:5efe:10.0.0.1",
    "2600::5efe:169.254.169.254",
    "fd00::5efe:169.254.169.254",
    "fd00::200:5efe:10.0.0.1",
    "fe80::5efe:10.0.0.1",
    "2001:0:808:808::80ff:fffe",  # Teredo with a loopback client
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert Guard().allows(address)
    assert Guard(PRIVATE_RANGES).allows(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_allowed_only_on_request(address: str) -> None:
    assert not Guard().allows(address)
    assert Guard(PRIVATE_RANGES).allows(address)


@pytest.mark.parametrize("address", NEVER)
def test_reserved_addresses_are_never_allowed(address: str) -> None:
    assert not Guard().allows(address)
    assert not Guard(PRIVATE_RANGES).allows(address)


@pytest.mark.parametrize("address", DISGUISED)
def test_U09_a_private_ipv4_address_embedded_in_ipv6_is_never_allowed(address: str) -> None:
    assert not Guard().allows(address)
    assert not Guard(PRIVATE_RANGES).allows(address)


@pytest.mark.parametrize("address", ["::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"])
def test_a_public_address_in_another_form_stays_public(address: str) -> None:
    assert Guard().allows(address)


def test_one_forbidden_address_refuses_all_of_them() -> None:
    refusal = Guard().check([*PUBLIC, "10.0.0.1"])
    assert refusal is not None
    assert refusal.failure_class is FailureClass.REFUSED
    assert "10.0.0.1" in refusal.reason
    assert Guard().check(PUBLIC) is None


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:text/html,x",
        "javascript:alert(1)",
        "s3://bucket/key",
        "ws://example.com/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://example.com:65536/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://a..b/",
        "http://.example.com/",
        f"http://{'a' * 64}.test/",
        f"http://{'a.' * 127}test/",
        "nonsense",
        "",
    ],
)
def test_a_url_that_must_not_be_fetched_is_refused(url: str) -> None:
    origin = Guard().origin(url)
    assert isinstance(origin, Failure)
    assert origin.failure_class is FailureClass.REFUSED
    assert "secret" not in origin.reason


def test_U15_the_bad_ports_are_those_of_the_standard_and_of_two_stores() -> None:
    """From https://fetch.spec.whatwg.org/#port-blocking."""
    standard = """
        0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115
        117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563
        587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668
        6669 6679 6697 10080
    """
    assert {*map(int, standard.split()), 6379, 11211} == BAD_PORTS


@pytest.mark.parametrize("port", [0, 22, 25, 6379, 6000, 10080])
def test_U15_bad_ports_are_refused(port: int) -> None:
    assert port in BAD_PORTS
    assert isinstance(Guard().origin(f"http://example.com:{port}/"), Failure)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://example.com/a", Origin("http://example.com", False, "example.com", 80, "example.com")),
        ("https://example.com/", Origin("https://example.com", True, "example.com", 443, "example.com")),
        ("http://example.com:/", Origin("http://example.com", False, "example.com", 80, "example.com")),
        ("http://example.com:080/", Origin("http://example.com", False, "example.com", 80, "example.com")),
        (
            "https://[2606:2800::1]:8443/",
            Origin("https://[2606:2800::1]:8443", True, "2606:2800::1", 8443, "[2606:2800::1]:8443"),
        ),
        ("http://host1/", Origin("http://host1", False, "host1", 80, "host1")),
        ("http://a.test./", Origin("http://a.test.", False, "a.test", 80, "a.test.")),
    ],
)
def test_an_allowed_url_says_where_to_connect(url: str, origin: Origin) -> None:
    assert Guard().origin(url) == origin


@pytest.mark.parametrize(
    ("host", "literal"), [("10.0.0.1", True), ("::1", True), ("a1", False), ("x.a1", False)]
)
def test_names_that_end_in_a_digit_are_names(host: str, literal: bool) -> None:
    assert is_ip_literal(host) is literal


def test_only_the_ranges_that_are_named_are_allowed() -> None:
    guard = Guard(address_ranges(["10.1.2.0/24", "fd12::/16", "100.64.0.0/10"]))
    for address in ("10.1.2.3", "fd12::1", "100.64.0.1", "93.184.215.14"):
        assert guard.allows(address), address
    for address in (
        "10.1.3.1",
        "127.0.0.1",
        "fd13::1",
        "100.100.100.200",
        "fd12::a9fe:a9fe",
        "::ffff:10.1.2.3",
    ):
        assert not guard.allows(address), address


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0/0",
        "::/0",
        "169.254.0.0/16",
        "8.8.8.0/24",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "x",
        "",
        "fe80::/10",
        "::/96",
    ],
)
def test_a_range_that_is_not_private_cannot_be_allowed(text: str) -> None:
    with pytest.raises(Rejected):
        address_range(text)
