"""Every limit that keeps one page from hurting the rest. Sizes in bytes, times in seconds."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class FetchLimits:
    header_bytes: int = 64 * KIB
    header_lines: int = 256
    wire_bytes: int = 16 * MIB
    body_bytes: int = 32 * MIB  # decoded
    ratio: int = 200  # decoded : wire, once past `ratio_from`
    ratio_from: int = 1 * MIB
    encodings: int = 2
    connect: float = 10.0
    tls: float = 10.0
    first_byte: float = 20.0
    idle: float = 15.0
    total: float = 60.0
    slow_rate: int = 512  # bytes per second, once `slow_after` has passed
    slow_after: float = 10.0
    redirects: int = 10
    robots_bytes: int = 500 * KIB


@dataclass(frozen=True, slots=True)
class LinkLimits:
    url_bytes: int = 4096
    segments: int = 32
    repeated_segments: int = 2  # the same path segment in a row
    per_page: int = 10_000
    per_pattern: int = 0  # URLs alike but for numbers that one host may bring in an hour; 0: any number
    per_host: int = 0  # requests that one host may bring to a crawl; 0: any number


@dataclass(frozen=True, slots=True)
class ParseLimits:
    cpu: float = 10.0
    wall: float = 15.0
    memory_bytes: int = 512 * MIB  # on top of what an idle child uses
    output_bytes: int = 64 * MIB
    items: int = 100_000
    crashes: int = 2  # strikes a page may cost before it is given up
