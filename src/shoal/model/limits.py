"""Limits on what one response or page may use. Sizes in bytes, times in seconds."""

from dataclasses import dataclass
from typing import Annotated

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits on one response, and the private addresses that it may come from."""

    header_bytes: Annotated[int, "Bytes of response headers, in total."] = 64 * KIB
    header_lines: Annotated[int, "Lines of response headers."] = 256
    wire_bytes: Annotated[int, "Bytes of a response body as sent."] = 16 * MIB
    body_bytes: Annotated[int, "Bytes of a response body, decoded."] = 32 * MIB
    ratio: Annotated[int, "How many times larger a body may become by decoding."] = 200
    ratio_from: Annotated[int, "Decoded bytes from which ratio applies."] = 1 * MIB
    encodings: Annotated[int, "Content encodings applied to one body."] = 2
    connect: Annotated[float, "Seconds for connecting."] = 10.0
    tls: Annotated[float, "Seconds for the TLS handshake."] = 10.0
    first_byte: Annotated[float, "Seconds until the first byte of the response."] = 20.0
    idle: Annotated[float, "Seconds without receiving any byte."] = 15.0
    total: Annotated[float, "Seconds for a whole attempt."] = 60.0
    slow_rate: Annotated[int, "Bytes per second that a response must average."] = 512
    slow_after: Annotated[float, "Seconds after which slow_rate applies."] = 10.0
    redirects: Annotated[int, "Redirects in a row."] = 10
    robots_bytes: Annotated[int, "Bytes of a robots.txt that are read."] = 500 * KIB
    allow_ranges: Annotated[
        tuple[str, ...],
        "Loopback and private address ranges that may be connected to, such as 10.1.2.0/24; in the"
        " environment comma-separated.",
    ] = ()


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Which links count as a crawler trap, and how many of them one page or host may contribute."""

    url_bytes: Annotated[int, "Bytes of a URL."] = 4096
    segments: Annotated[int, "Segments of a path."] = 32
    repeated_segments: Annotated[int, "Equal segments of a path in a row."] = 2
    per_page: Annotated[int, "Links taken from one page."] = 10_000
    bytes_per_page: Annotated[int, "Bytes of the links taken from one page, as they are stored."] = 4 * MIB
    per_pattern: Annotated[
        int, "New URLs per host and hour that differ only in their numbers; 0: no limit."
    ] = 100_000
    near_duplicates: Annotated[
        int,
        "Near-duplicate pages of one pattern after which links of more such pages are dropped; 0: no limit.",
    ] = 10_000
    identical_pages: Annotated[
        int,
        "Pages of a site with the same text, whose URLs differ only in ids, after which no more of them are"
        " requested; 0: no limit.",
    ] = 500
    again: Annotated[
        int, "Requests with again or unique that may follow from one another; a longer chain is a trap."
    ] = 100
    per_host: Annotated[int, "Requests per host in a crawl; 0: no limit."] = 0
    per_site: Annotated[
        int, "Requests per registrable domain in a crawl, all its hosts together; 0: no limit."
    ] = 0


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits on what a handler may use for one page."""

    cpu: Annotated[float, "CPU seconds for one page."] = 10.0
    wall: Annotated[float, "Seconds for one page."] = 15.0
    memory_bytes: Annotated[int, "Memory for one page, in addition to that of an idle parse process."] = (
        192 * MIB
    )
    output_bytes: Annotated[int, "Bytes of the items and links of one page, encoded."] = 64 * MIB
    items: Annotated[int, "Items of one page."] = 100_000
    crashes: Annotated[int, "Parse processes that a page may crash before it becomes a dead letter."] = 2
