"""A tokenizer for untrusted XML: a stream of tags and text.

It expands only the five XML entities, numeric references and the names of HTML. It reads no document type,
includes nothing and follows no style sheet, base or URL, so the usual attacks on XML do not apply; a document
that declares entities is refused as malicious. Memory is bounded by one chunk plus the longest tag, and time
is linear in the size of the document.

It accepts what real sitemaps and feeds contain: a bare `&` in URLs, undeclared prefixes, mismatched tags, a
missing end. libxml2 in recovery mode turns `?a=1&b=2` into `?a=1=2`, which is why it is not used here.
`tests/unit/spider/test_xml.py` compares the two on thousands of well-formed documents.
"""

import re
from collections.abc import Iterable, Iterator
from html.entities import html5

from shoal.model.limits import KIB

_MAX_TAG_CHARS = 64 * KIB  # also of a document type


class MaliciousXml(Exception):
    """The document is built to exhaust its reader; the message says how."""


# A tag and the text after it: "/" if it is an end tag, the name with prefix, the attributes as written, the
# text before unescaping. Text without a tag has an empty name. A plain tuple: a sitemap has half a million of
# them.
Token = tuple[str, str, str, str]

# Constructs with their own end mark and no tags inside.
_ENDINGS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_special = re.compile(r"<!--|<!\[CDATA\[|<\?")
_text = re.compile(r"[^<]++|(?:<(?=<))++")  # of a run of `<`, only the last can begin a tag
_NAME = r"""[^\s<>/!?"'=][^\s<>/"'=]*+"""
_tag = re.compile(rf"""<(/?)({_NAME})((?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>([^<]*+)""")
_broken_tag = re.compile(rf"<(/?)({_NAME})([^<>]*+)>([^<]*+)")
_bogus = re.compile(r"<!(?!ENTITY)[^<>\[]*+>", re.IGNORECASE)  # also a document type without declarations
_document_type = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_entity = re.compile(r"<!ENTITY\s++[^%\s]", re.IGNORECASE)
_subset_end = re.compile(r"\]\s*+>")


def tokenize(chunks: Iterable[str]) -> Iterator[Token]:
    """Yield the tokens of a document that arrives in chunks. The text of an element may be several tokens."""
    tokenizer = _Tokenizer()
    for chunk in chunks:
        yield from tokenizer.read(chunk)
    yield from tokenizer.read("", final=True)


class _Tokenizer:
    def __init__(self) -> None:
        self._rest = ""  # input that cannot be tokenized without the next chunk
        self._ending = ""  # end mark of the comment, CDATA section or instruction being skipped
        self._typed = False  # no document type may follow: there was one, or text came first

    def read(self, chunk: str, *, final: bool = False) -> Iterator[Token]:
        buffer = self._rest + chunk
        at = 0
        while at < len(buffer):
            if self._ending:
                found = buffer.find(self._ending, at)
                stop = found if found >= 0 else max(at, len(buffer) - len(self._ending) + 1)
                if self._ending == "]]>" and stop > at:
                    yield "", "", "", buffer[at:stop].replace("&", "&amp;")
                at = stop
                if found < 0:
                    break
                at += len(self._ending)
                self._ending = ""
            elif part := _tag.match(buffer, at, at + _MAX_TAG_CHARS):
                yield part.groups()  # type: ignore[misc]
                at = part.end()
            elif part := _text.match(buffer, at):
                yield "", "", "", part[0]
                at = part.end()
            elif part := _special.match(buffer, at):
                self._ending = _ENDINGS[part[0]]
                at = part.end()
            elif part := _bogus.match(buffer, at, at + _MAX_TAG_CHARS):
                at = part.end()
            elif not self._typed and _document_type.match(buffer, at) and (end := _end_of_type(buffer, at)):
                at = end
                self._typed = True
            elif len(buffer) - at < _MAX_TAG_CHARS and not final:
                break
            elif part := _broken_tag.match(buffer, at, at + _MAX_TAG_CHARS):
                yield part.groups()  # type: ignore[misc]
                at = part.end()
            else:
                yield "", "", "", "<"
                at += 1
                self._typed = True
        self._rest = buffer[at:]


def _end_of_type(buffer: str, at: int) -> int | None:
    """Return the end of a document type, which is skipped; None if it is not in this buffer."""
    # Entities for text make entity bombs. Parameter entities (%) have no effect, because nothing reads them.
    if _entity.search(buffer, at, at + _MAX_TAG_CHARS):
        raise MaliciousXml("it declares entities")
    found = _subset_end.search(buffer, at, at + _MAX_TAG_CHARS)
    if not found and len(buffer) - at >= _MAX_TAG_CHARS:
        raise MaliciousXml("its document type has no end")
    return found.end() if found else None


def unescape(text: str) -> str:
    """Replace references that end in a semicolon by characters; `&copy=1` in a URL stays as it is."""
    return _reference.sub(_character, text) if "&" in text else text


_reference = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{0,31}));")


def _character(reference: re.Match[str]) -> str:
    decimal, hexadecimal, name = reference.groups()
    if name:
        return html5.get(f"{name};", reference[0])
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
