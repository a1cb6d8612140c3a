"""XML as a stream of tags and text, for documents that come from strangers.

There are no entities to expand but the five of XML, numbers and the names of HTML. No document type is read,
nothing is included, no style sheet, base or address is looked at. So the usual attacks on XML have nothing to
work on, and a document that declares entities is refused as what it is. Memory is bounded by a chunk and the
longest tag, time is linear in the size of the document.

It forgives what real sitemaps and feeds do: bare `&` in addresses, undeclared names, tags that do not match,
an end that never comes. libxml2, told to forgive, makes `?a=1=2` of `?a=1&b=2`: that is why it is not used.
`tests/unit/spider/test_xml.py` compares the two on thousands of well-formed documents.
"""

import re
from collections.abc import Iterable, Iterator
from html.entities import html5

from shoal.model.limits import KIB

_LONGEST = 64 * KIB  # characters of a tag, or of a document type


class Hostile(Exception):
    """The document is built to hurt whoever reads it; the text says how."""


# A tag and the text after it: a slash if it closes, its name with prefix, its attributes as written, the text
# with its references. Text alone has no name. A plain tuple, because a sitemap has half a million of them.
Token = tuple[str, str, str, str]

# What has an end of its own, and no tags inside.
_ENDINGS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_special = re.compile(r"<!--|<!\[CDATA\[|<\?")
_text = re.compile(r"[^<]++")
_NAME = r"""[^\s<>/!?"'=][^\s<>/"'=]*+"""
_tag = re.compile(rf"""<(/?)({_NAME})((?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>([^<]*+)""")
_broken_tag = re.compile(rf"<(/?)({_NAME})([^<>]*+)>([^<]*+)")
_bogus = re.compile(r"<!(?!ENTITY)[^<>\[]*+>", re.IGNORECASE)  # also a document type without declarations
_document_type = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_entity = re.compile(r"<!ENTITY\s++[^%\s]", re.IGNORECASE)
_subset_end = re.compile(r"\]\s*+>")


def tokens(chunks: Iterable[str]) -> Iterator[Token]:
    """Read a document piece by piece. An element's text may come in several tokens."""
    tokenizer = _Tokenizer()
    for chunk in chunks:
        yield from tokenizer.read(chunk)
    yield from tokenizer.read("", final=True)


class _Tokenizer:
    def __init__(self) -> None:
        self._rest = ""  # what could not be read without knowing what follows
        self._ending = ""  # of what is being passed over
        self._typed = False  # no document type may follow: there was one, or it is too late for it

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
            elif part := _tag.match(buffer, at, at + _LONGEST):
                yield part.groups()  # type: ignore[misc]
                at = part.end()
            elif part := _text.match(buffer, at):
                yield "", "", "", part[0]
                at = part.end()
            elif part := _special.match(buffer, at):
                self._ending = _ENDINGS[part[0]]
                at = part.end()
            elif part := _bogus.match(buffer, at, at + _LONGEST):
                at = part.end()
            elif not self._typed and _document_type.match(buffer, at) and (end := _end_of_type(buffer, at)):
                at = end
                self._typed = True
            elif len(buffer) - at < _LONGEST and not final:
                break
            elif part := _broken_tag.match(buffer, at, at + _LONGEST):
                yield part.groups()  # type: ignore[misc]
                at = part.end()
            else:
                yield "", "", "", "<"
                at += 1
                self._typed = True
        self._rest = buffer[at:]


def _end_of_type(buffer: str, at: int) -> int | None:
    """Find where a document type ends that nobody is going to read; None: not in this buffer."""
    # Entities that stand for text are what bombs are made of; those for declarations (%) do nothing unread.
    if _entity.search(buffer, at, at + _LONGEST):
        raise Hostile("it declares entities")
    found = _subset_end.search(buffer, at, at + _LONGEST)
    if not found and len(buffer) - at >= _LONGEST:
        raise Hostile("its document type has no end")
    return found.end() if found else None


def unescape(text: str) -> str:
    """Put characters for references that end in a semicolon; `&copy=1` in an address is left alone."""
    return _reference.sub(_character, text) if "&" in text else text


_reference = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{0,31}));")


def _character(reference: re.Match[str]) -> str:
    decimal, hexadecimal, name = reference.groups()
    if name:
        return html5.get(f"{name};", reference[0])
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
