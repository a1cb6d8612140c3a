"""Start URLs from a file or standard input: one a line, each judged by itself."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shoal.model.errors import Misconfigured, Rejected
from shoal.model.url import canonical

STDIN = "-"
SHOWN = 10  # complaints that are told in full; a file of something else would fill the screen


@dataclass(frozen=True, slots=True)
class Seeds:
    urls: tuple[str, ...]
    complaints: tuple[str, ...]  # one for each line that is no start URL


def read_seeds(path: str) -> Seeds:
    """Read the start URLs in a file, `-` for standard input; raises if it cannot be read or has none."""
    name = "standard input" if path == STDIN else path
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text("utf-8")
    except OSError as error:
        raise Misconfigured(f"--seeds {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misconfigured(f"--seeds {path}: not a text in UTF-8") from None
    seeds = judge_lines(text.splitlines(), name)
    if not seeds.urls:
        first = f", and the first line is wrong: {seeds.complaints[0]}" if seeds.complaints else ""
        raise Misconfigured(f"--seeds: no start URL in {name}{first}")
    return seeds


def judge_lines(lines: Iterable[str], name: str) -> Seeds:
    """Take the URLs out of lines; blank lines, and those that begin with #, are nothing."""
    urls: dict[str, None] = {}
    complaints = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            url = canonical(text)
            if not url.startswith(("http://", "https://")):
                raise Rejected(f"only http and https can be crawled: {text[:200]!r}")
        except Rejected as error:
            complaints.append(f"{name}:{number}: {error}")
        else:
            urls[url] = None
    return Seeds(tuple(urls), tuple(complaints))


def told(complaints: tuple[str, ...]) -> list[str]:
    """Say what is wrong with lines, but not for pages."""
    more = len(complaints) - SHOWN
    return [*complaints[:SHOWN], *([f"and {more:,} more lines that are no start URLs"] if more > 0 else [])]
