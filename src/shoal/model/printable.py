"""Text of others on its way to a terminal or a log: nothing in it can do more than be read.

Pages, servers, spiders, records and file names end up in messages. An escape sequence there would move the
cursor, set the title or fill the clipboard; a direction override or a zero-width character would show
another text than the one that is there; a newline would start a line that looks like ours. `printable`
writes all of these as escapes.
"""

import re

from shoal.model.errors import Misconfigured

MAX_NAME_CHARS = 200  # of a crawl or a spider
MAX_LINE_CHARS = 16_384
"""Longer lines are cut: a URL has at most 65,536 bytes, and no reason needs a tenth of that."""

_DANGEROUS_IN_JSON = re.compile(
    "[\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")  # fixed width, and harmless


def printable(text: str, *, keep: str = "", limit: int = MAX_LINE_CHARS) -> str:
    """Return text in which every character is visible; `keep`: control characters that stay, such as newline.

    What is not printable becomes an escape as in Python source: `\\\\x1b`, `\\\\u202e`. Text beyond `limit`
    is cut.
    """
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit:,} more characters)"
    if text.isprintable():
        return text
    text = _SPACES.sub(" ", text)
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def printable_block(text: str) -> str:
    """Return lines of this program, such as a traceback, with their newlines; nothing is cut."""
    return printable(text, keep="\n\t", limit=len(text))


def escape_json(text: str) -> str:
    """Escape what a terminal may act on in JSON text; it stays the same value. Controls below U+0020 are
    escaped."""
    return text if text.isascii() and "\x7f" not in text else _DANGEROUS_IN_JSON.sub(_escape_utf16, text)


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


def _escape_utf16(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))


def name_fault(name: object) -> str:
    """Return what is wrong with the name of a crawl or spider; empty: nothing."""
    if not isinstance(name, str) or not name.strip():
        return "must be a non-empty string"
    if len(name) > MAX_NAME_CHARS:
        return f"is longer than {MAX_NAME_CHARS} characters"
    if not name.isprintable():  # control characters, direction overrides, zero-width characters, surrogates
        return "has characters that cannot be printed"
    return ""


def check_name(name: str, what: str) -> str:
    """Return a name; raise `Misconfigured` that says what is wrong with it, without the name itself."""
    if fault := name_fault(name):
        raise Misconfigured(f"{what} {fault}: choose another with --crawl NAME")
    return name
