"""Decode a body: find the encoding of a page, also when its label is wrong.

The order is that of browsers: byte order mark, HTTP header, `<meta>` (or the XML declaration), then a guess.
Browsers use the first label, right or wrong. Here two wrong labels are detected, because an item with `Ã©` in
it is of little use and no person looks at the page:

- a single-byte label on a body that is valid UTF-8 with non-ASCII characters: real text in such an encoding
  is
  never valid UTF-8, and many servers send ISO-8859-1 for everything;
- a label under which most of the non-ASCII text cannot be decoded. A few broken bytes are damage: they are
  replaced and counted. Many mean another encoding: the next label, or the guess, is used if it fits.

Pure, never raises, and linear in the size of the body. UTF-7 is not supported.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from shoal.spider.text.charset_guess import guess_charset
from shoal.spider.text.encodings import (
    UTF_8,
    UTF_16BE,
    UTF_16LE,
    WINDOWS_1252,
    decode_with,
    encoding_for_label,
    is_single_byte,
)

_PRESCAN_BYTES = 4096  # the standard's 1,024 miss pages that start with scripts
_PLAIN_META_BYTES = 1024
_MAX_DAMAGE = 4  # up to this many replacements, a label is not considered wrong


class CharsetSource(StrEnum):
    BOM = "bom"
    HEADER = "header"
    META = "meta"
    DETECTED = "detected"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class DecodedText:
    """The text of a body, and how its encoding was found."""

    text: str
    encoding: str  # its name in the Encoding Standard
    source: CharsetSource
    replaced: int = 0  # bytes that were replaced by U+FFFD


def decode(body: bytes, content_type: str = "") -> DecodedText:
    """Decode a body that was sent with `content_type`. Never raises."""
    if body.startswith(_MARKS):
        mark, encoding = next(marked for marked in _BY_MARK.items() if body.startswith(marked[0]))
        text, replaced = decode_with(body[len(mark) :], encoding)
        return DecodedText(text, encoding, CharsetSource.BOM, replaced)
    header = _charset_in(content_type)
    if header == UTF_8:  # most of the web: `_choose` would return the same, more slowly
        try:
            return DecodedText(body.decode(), UTF_8, CharsetSource.HEADER)
        except UnicodeDecodeError:
            pass
    return _choose(body, header)


def declared_encoding(head: bytes, content_type: str = "") -> tuple[str | None, int]:
    """Return the encoding that a body declares at its start, and the length of its byte order mark."""
    for mark, encoding in _BY_MARK.items():
        if head.startswith(mark):
            return encoding, len(mark)
    return _charset_in(content_type) or prescan(head[:_PRESCAN_BYTES]), 0


_BY_MARK = {b"\xef\xbb\xbf": UTF_8, b"\xff\xfe": UTF_16LE, b"\xfe\xff": UTF_16BE}
_MARKS = tuple(_BY_MARK)


def _choose(body: bytes, header: str | None) -> DecodedText:
    """Decode with the first declared encoding that fits the body, else with a guess."""
    as_utf_8 = _strict_utf_8(body)
    beyond_ascii = as_utf_8 is not None and len(as_utf_8) < len(body)
    wrong: list[DecodedText] = []
    for source, encoding in _declarations(body, header):
        if as_utf_8 is not None and encoding == UTF_8:
            return DecodedText(as_utf_8, UTF_8, source)
        if beyond_ascii and is_single_byte(encoding):
            break
        text, replaced = decode_with(body, encoding)
        decoded = DecodedText(text, encoding, source, replaced)
        if not _is_wrong(decoded, body):
            return decoded
        wrong.append(decoded)
    if as_utf_8 is not None and (beyond_ascii or wrong):
        return DecodedText(as_utf_8, UTF_8, CharsetSource.DETECTED)
    if guessed := guess_charset(body):
        text, replaced = decode_with(body, guessed)
        if not wrong or not replaced:
            return DecodedText(text, guessed, CharsetSource.DETECTED, replaced)
    if wrong:
        return wrong[0]
    if as_utf_8 is not None:
        return DecodedText(as_utf_8, UTF_8, CharsetSource.DEFAULT)
    return DecodedText(decode_with(body, WINDOWS_1252)[0], WINDOWS_1252, CharsetSource.DEFAULT)


def _declarations(body: bytes, header: str | None) -> Iterator[tuple[CharsetSource, str]]:
    if header:
        yield CharsetSource.HEADER, header
    meta = prescan(body[:_PRESCAN_BYTES])
    if meta and meta != header:
        yield CharsetSource.META, meta


def _strict_utf_8(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _is_wrong(decoded: DecodedText, body: bytes) -> bool:
    if decoded.encoding in (UTF_16LE, UTF_16BE):
        return b"\0" not in body[:_PRESCAN_BYTES]  # markup contains ASCII, which has zero bytes in UTF-16
    if decoded.replaced <= _MAX_DAMAGE:
        return False
    ascii_only = len(decoded.text.encode("ascii", "ignore"))
    return 2 * decoded.replaced > len(decoded.text) - ascii_only


@lru_cache(maxsize=256)
def _charset_in(content_type: str) -> str | None:
    """Return the encoding that a Content-Type, or the `content` of a `<meta>`, names."""
    found = _charset.search(content_type[:1024])
    return encoding_for_label(found[1] or found[2] or found[3] or "") if found else None


_charset = re.compile(r"""charset\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s;"',]++))""", re.IGNORECASE)


def prescan(head: bytes) -> str | None:
    """Return the encoding that the start of a page declares, found by the HTML standard's prescan algorithm.

    It knows comments and quoted attributes, but neither scripts nor the tree. A declaration that is readable
    as ASCII cannot be in UTF-16, so a label of UTF-16 there means UTF-8.
    """
    found = _xml_declaration.match(head)
    encoding = encoding_for_label(found[1].decode("latin-1")) if found else None
    if encoding is None:
        encoding = _plain_meta(head)
    if encoding is None and b"charset" in head.lower():
        encoding = next(filter(None, map(_meta_encoding, _metas(head))), None)
    if encoding in (UTF_16LE, UTF_16BE):
        return UTF_8
    return WINDOWS_1252 if encoding == "x-user-defined" else encoding


_xml_declaration = re.compile(rb"""\s*+<\?xml\s[^>]*?encoding\s*+=\s*+["']([^"'>]*+)["']""")
_tag = re.compile(rb"""</?([a-zA-Z][^\s/>]*+)((?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])*+)>""")
_plain_label = re.compile(rb"""["']?([A-Za-z0-9_:.-]++)["']?\s*+/?>""")
_attribute = re.compile(rb"""([^\s=/"']++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"']++)))?""")


def _plain_meta(head: bytes) -> str | None:
    """Return the encoding of a plain `<meta charset>`, if nothing before it could hide it.

    A shortcut: most pages have one, and it saves the walk through the tags before it.
    """
    meta = head.find(b"<meta charset=", 0, _PLAIN_META_BYTES)
    before = head[: max(0, meta)]
    hidden = before.rfind(b"<") > before.rfind(b">") or before.count(b'"') % 2 or before.count(b"'") % 2
    if meta < 0 or hidden or b"<!--" in before or b"charset" in before:
        return None
    label = _plain_label.match(head, meta + 14)
    return encoding_for_label(label[1].decode()) if label else None


def _metas(head: bytes) -> Iterator[dict[str, str]]:
    """Yield the attributes of each `<meta>` element, up to the first construct that is not closed."""
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


def _meta_encoding(meta: dict[str, str]) -> str | None:
    if "charset" in meta:
        return encoding_for_label(meta["charset"])
    if meta.get("http-equiv", "").strip().lower() == "content-type":
        return _charset_in(meta.get("content", ""))
    return None
