"""From bytes to text: which encoding a page is in, and what to do when it lies.

The order is that of browsers: byte order mark, HTTP header, `<meta>` (or the XML declaration), then a guess.
Browsers take the first answer, right or wrong. Here two kinds of lie are seen through, because a record with
`Ã©` in it is worth little and nobody will look at the page:

- a single-byte label on a body that is valid UTF-8 beyond ASCII: real text in such an encoding is not, and
  servers that put ISO-8859-1 on everything are many;
- a label under which most of the non-ASCII text cannot be decoded. A few broken bytes are damage, and are
  replaced and counted; many are another encoding: the next claim, or the guess, is taken if it fits.

Pure, never raises, and linear in the size of the body. UTF-7 is not an encoding here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from shoal.spider.text.charset_guess import guess
from shoal.spider.text.encodings import (
    UTF_8,
    UTF_16BE,
    UTF_16LE,
    WINDOWS_1252,
    encoding_of,
    is_single_byte,
    read,
)

_PRESCAN = 4096  # bytes; the standard's 1,024 miss pages that put scripts first
_NEAR = 1024
_DAMAGE = 4  # replacements that never prove a label wrong


class CharsetSource(StrEnum):
    BOM = "bom"
    HEADER = "header"
    META = "meta"
    DETECTED = "detected"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a body, and how it was found."""

    text: str
    encoding: str  # by its name in the Encoding Standard
    source: CharsetSource
    replaced: int = 0  # places where U+FFFD had to stand in


def decode(body: bytes, content_type: str = "") -> Decoded:
    """Decode a body whose header says `content_type`. Never raises."""
    if body.startswith(_MARKS):
        mark, encoding = next(marked for marked in _BY_MARK.items() if body.startswith(marked[0]))
        text, replaced = read(body[len(mark) :], encoding)
        return Decoded(text, encoding, CharsetSource.BOM, replaced)
    header = _charset_in(content_type)
    if header == UTF_8:  # most of the web; the long way ends in the same, later
        try:
            return Decoded(body.decode(), UTF_8, CharsetSource.HEADER)
        except UnicodeDecodeError:
            pass
    return _judge(body, header)


def declared(head: bytes, content_type: str = "") -> tuple[str | None, int]:
    """Name the encoding that a body's beginning claims, and say how long its byte order mark is."""
    for mark, encoding in _BY_MARK.items():
        if head.startswith(mark):
            return encoding, len(mark)
    return _charset_in(content_type) or prescan(head[:_PRESCAN]), 0


_BY_MARK = {b"\xef\xbb\xbf": UTF_8, b"\xff\xfe": UTF_16LE, b"\xfe\xff": UTF_16BE}
_MARKS = tuple(_BY_MARK)


def _judge(body: bytes, header: str | None) -> Decoded:
    """Take the first claim that the body bears out."""
    as_utf_8 = _strict_utf_8(body)
    beyond_ascii = as_utf_8 is not None and len(as_utf_8) < len(body)
    lies: list[Decoded] = []
    for source, encoding in _claims(body, header):
        if as_utf_8 is not None and encoding == UTF_8:
            return Decoded(as_utf_8, UTF_8, source)
        if beyond_ascii and is_single_byte(encoding):
            break
        text, replaced = read(body, encoding)
        decoded = Decoded(text, encoding, source, replaced)
        if not _is_lie(decoded, body):
            return decoded
        lies.append(decoded)
    if as_utf_8 is not None and (beyond_ascii or lies):
        return Decoded(as_utf_8, UTF_8, CharsetSource.DETECTED)
    if guessed := guess(body):
        text, replaced = read(body, guessed)
        if not lies or not replaced:
            return Decoded(text, guessed, CharsetSource.DETECTED, replaced)
    if lies:
        return lies[0]
    if as_utf_8 is not None:
        return Decoded(as_utf_8, UTF_8, CharsetSource.DEFAULT)
    return Decoded(read(body, WINDOWS_1252)[0], WINDOWS_1252, CharsetSource.DEFAULT)


def _claims(body: bytes, header: str | None) -> Iterator[tuple[CharsetSource, str]]:
    if header:
        yield CharsetSource.HEADER, header
    meta = prescan(body[:_PRESCAN])
    if meta and meta != header:
        yield CharsetSource.META, meta


def _strict_utf_8(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _is_lie(decoded: Decoded, body: bytes) -> bool:
    if decoded.encoding in (UTF_16LE, UTF_16BE):
        return b"\0" not in body[:_PRESCAN]  # markup has ASCII in it, and that has zeros
    if decoded.replaced <= _DAMAGE:
        return False
    ascii_only = len(decoded.text.encode("ascii", "ignore"))
    return 2 * decoded.replaced > len(decoded.text) - ascii_only


@lru_cache(maxsize=256)
def _charset_in(content_type: str) -> str | None:
    """Find the encoding that a Content-Type, or the `content` of a `<meta>`, names."""
    found = _charset.search(content_type[:1024])
    return encoding_of(found[1] or found[2] or found[3] or "") if found else None


_charset = re.compile(r"""charset\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s;"',]++))""", re.IGNORECASE)


def prescan(head: bytes) -> str | None:
    """Find the encoding that the beginning of a page declares, by the standard's own small parser.

    It knows comments and quoted attributes but neither scripts nor the tree. A declaration that can be read
    as ASCII is not in UTF-16, whatever it says: then it is UTF-8.
    """
    found = _xml_declaration.match(head)
    encoding = encoding_of(found[1].decode("latin-1")) if found else None
    if encoding is None:
        encoding = _plain_meta(head)
    if encoding is None and b"charset" in head.lower():
        encoding = next(filter(None, map(_declared, _metas(head))), None)
    if encoding in (UTF_16LE, UTF_16BE):
        return UTF_8
    return WINDOWS_1252 if encoding == "x-user-defined" else encoding


_xml_declaration = re.compile(rb"""\s*+<\?xml\s[^>]*?encoding\s*+=\s*+["']([^"'>]*+)["']""")
_tag = re.compile(rb"""</?([a-zA-Z][^\s/>]*+)((?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])*+)>""")
_plain_label = re.compile(rb"""["']?([A-Za-z0-9_:.-]++)["']?\s*+/?>""")
_attribute = re.compile(rb"""([^\s=/"']++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"']++)))?""")


def _plain_meta(head: bytes) -> str | None:
    """Find a plain `<meta charset>` without walking there, if nothing before it could hide it."""
    meta = head.find(b"<meta charset=", 0, _NEAR)
    before = head[: max(0, meta)]
    hidden = before.rfind(b"<") > before.rfind(b">") or before.count(b'"') % 2 or before.count(b"'") % 2
    if meta < 0 or hidden or b"<!--" in before or b"charset" in before:
        return None
    label = _plain_label.match(head, meta + 14)
    return encoding_of(label[1].decode()) if label else None


def _metas(head: bytes) -> Iterator[dict[str, str]]:
    """Walk the attributes of the `<meta>` elements, up to the first construct that does not end."""
    at = 0
    while (at := head.find(b"<", at)) >= 0:
        if head.startswith(b"<!--", at):
            at = head.find(b"-->", at + 2) + 3
        elif tag := _tag.match(head, at):
            if tag[1].lower() == b"meta":
                yield _attributes(tag[2])
            at = tag.end()
        elif head[at + 1 : at + 2] in (b"!", b"/", b"?"):
            at = head.find(b">", at) + 1
        elif head[at + 1 : at + 2].isalpha():
            return
        else:
            at += 1
            continue
        if at < 3:  # `find` found nothing
            return


def _attributes(source: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, *values in _attribute.findall(source):
        found.setdefault(name.decode("latin-1").lower(), b"".join(values).decode("latin-1"))
    return found


def _declared(meta: dict[str, str]) -> str | None:
    if "charset" in meta:
        return encoding_of(meta["charset"])
    if meta.get("http-equiv", "").strip().lower() == "content-type":
        return _charset_in(meta.get("content", ""))
    return None
