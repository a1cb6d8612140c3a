"""Every limit that keeps one page from hurting the rest. Sizes in bytes, times in seconds."""

from dataclasses import dataclass
from typing import Annotated

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one answer may cost: bytes and seconds."""

    header_bytes: Annotated[int, "Bytes of response headers, in all."] = 64 * KIB
    header_lines: Annotated[int, "Lines of response headers."] = 256
    wire_bytes: Annotated[int, "Bytes of a response body as sent."] = 16 * MIB
    body_bytes: Annotated[int, "Bytes of a response body, decoded."] = 32 * MIB
    ratio: Annotated[int, "How many times larger a body may become by decoding."] = 200
    ratio_from: Annotated[int, "Decoded bytes from which the ratio counts."] = 1 * MIB
    encodings: Annotated[int, "Content encodings on top of one another."] = 2
    connect: Annotated[float, "Seconds for connecting."] = 10.0
    tls: Annotated[float, "Seconds for the TLS handshake."] = 10.0
    first_byte: Annotated[float, "Seconds until the answer begins."] = 20.0
    idle: Annotated[float, "Seconds between two pieces of the answer."] = 15.0
    total: Annotated[float, "Seconds for a whole attempt."] = 60.0
    slow_rate: Annotated[int, "Bytes per second that an answer must keep up."] = 512
    slow_after: Annotated[float, "Seconds after which it must."] = 10.0
    redirects: Annotated[int, "Redirects in a row."] = 10
    robots_bytes: Annotated[int, "Bytes of a robots.txt that are read."] = 500 * KIB


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Which links are taken for a trap, and how many one page or host may bring."""

    url_bytes: Annotated[int, "Bytes of a URL."] = 4096
    segments: Annotated[int, "Segments of a path."] = 32
    repeated_segments: Annotated[int, "Equal segments of a path in a row."] = 2
    per_page: Annotated[int, "Links taken from one page."] = 10_000
    per_pattern: Annotated[
        int, "URLs alike but for their numbers that one host may bring in an hour; 0: no limit."
    ] = 100_000
    lookalikes: Annotated[
        int,
        "Near-identical pages of one pattern, after which links of further ones are left alone; 0: no limit.",
    ] = 10_000
    per_host: Annotated[int, "Requests that one host may bring to a crawl; 0: no limit."] = 0


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What a handler may use up for one page."""

    cpu: Annotated[float, "CPU seconds for one page."] = 10.0
    wall: Annotated[float, "Seconds for one page."] = 15.0
    memory_bytes: Annotated[int, "Memory for one page, on top of what an idle parse process uses."] = (
        512 * MIB
    )
    output_bytes: Annotated[int, "Bytes of the items and links of one page, encoded."] = 64 * MIB
    items: Annotated[int, "Items of one page."] = 100_000
    crashes: Annotated[int, "Parse processes that a page may cost before it is given up."] = 2
