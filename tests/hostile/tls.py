"""TLS: certificates that prove nothing, and handshakes that lead nowhere."""

from tests.hostile.case import Case, page, site
from tests.hostile.network import accept_only
from tests.site.raw import Peer, bare_closing_server

HERE = "IP:127.0.0.1"
PRIMES = (2**11_213 - 1, 3 * 2**5169 + 481)  # make a key of 16,384 bits, the largest that OpenSSL takes
GOOD = site({"/": page("<title>secure</title>")})


async def plain(peer: Peer) -> None:
    await peer.reader.read(1)
    await peer.send(page())


async def alert(peer: Peer) -> None:
    """Answer plain HTTP as a TLS server does."""
    await peer.request()
    await peer.send(b"\x15\x03\x03\x00\x02\x02\x16")


CASES = [
    Case(
        "T01 expired",
        "a certificate that has expired",
        GOOD,
        "dead tls",
        bind="127.0.0.1",
        tls=lambda ca: ca.server(HERE, end="20210101000000Z"),
    ),
    Case(
        "T01 early",
        "a certificate that is not valid yet",
        GOOD,
        "dead tls",
        bind="127.0.0.1",
        tls=lambda ca: ca.server(HERE, start="20800101000000Z"),
    ),
    Case(
        "T02 name",
        "a certificate for another name",
        GOOD,
        {"https://named.test:{port}/": "dead tls"},
        bind="127.0.0.1",
        tls=lambda ca: ca.server("DNS:other.test"),
    ),
    Case(
        "T02 wildcard",
        "a wildcard two labels deep",
        GOOD,
        {"https://deep.a.wild.test:{port}/": "dead tls", "https://a.wild.test:{port}/": "done"},
        seeds=("https://deep.a.wild.test:{port}/", "https://a.wild.test:{port}/"),
        bind="127.0.0.1",
        tls=lambda ca: ca.server("DNS:*.wild.test"),
    ),
    Case(
        "T02 address",
        "an address that the certificate does not name",
        GOOD,
        "dead tls",
        bind="127.0.0.1",
        tls=lambda ca: ca.server("DNS:named.test"),
    ),
    Case(
        "T03 self-signed",
        "a certificate that no authority has signed",
        GOOD,
        "dead tls",
        bind="127.0.0.1",
        tls=lambda ca: ca.self_signed(),
    ),
    Case(
        "T03 own authority",
        "a certificate by the authority of `crawl.ca_file`",
        GOOD,
        "done",
        bind="127.0.0.1",
        tls=lambda ca: ca.server(HERE),
    ),
    Case("T04 plain", "plain HTTP where TLS was expected", plain, {"https://{at}/": "dead tls"}),
    Case("T04 alert", "TLS where plain HTTP was expected", alert, "dead protocol"),
    Case(
        "T05",
        "a handshake that stalls",
        accept_only,
        {"https://{at}/": "dead timeout"},
        reason="TLS",
        slow=True,
    ),
    Case(
        "T07 names",
        "a certificate with 1,000 names",
        GOOD,
        "done",
        bind="127.0.0.1",
        tls=lambda ca: ca.server(",".join([HERE, *(f"DNS:n{n}.test" for n in range(1000))])),
    ),
    Case(
        "T07 key",
        "an RSA key of 16,384 bits",
        page(),
        "done",
        # In a thread: signing takes a second, and the servers of all other cases share this one.
        opened=lambda ca: bare_closing_server(ca.server(HERE, primes=PRIMES), page("<title>signed</title>")),
        slow=True,
    ),
    Case(
        "T07 chain",
        "a certificate chain of 1 MiB",
        GOOD,
        "dead tls",
        bind="127.0.0.1",
        tls=lambda ca: ca.server(HERE, padding=2500),
    ),
    Case(
        "T09 framed",
        "the end of TLS in the middle of a body",
        page(),
        "dead truncated",
        opened=lambda ca: bare_closing_server(
            ca.server(HERE), b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
        ),
    ),
    Case(
        "T09 unframed",
        "the end of TLS where only it ends the body",
        page(),
        "done",
        opened=lambda ca: bare_closing_server(
            ca.server(HERE), b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>x</title>"
        ),
    ),
]
