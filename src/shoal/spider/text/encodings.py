"""The encodings of the web and their labels, by the Encoding Standard, on top of Python's codecs.

A label means what it means in browsers (`latin1` is windows-1252, `gb2312` is GBK). A label that the standard
does not have is unknown, even if Python has a codec for it: UTF-7, `rot13`, `idna`. The labels of the
standard's "replacement" encoding, which exist to be refused, are unknown as well.

Known differences from the standard: EUC-JP lacks 457 vendor characters, Big5 192.
"""

import codecs
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

UTF_8, UTF_16LE, UTF_16BE, WINDOWS_1252 = "utf-8", "utf-16le", "utf-16be", "windows-1252"

_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866",
    "iso-8859-2": "csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso-8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i "
        "iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso-8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
        "iso_8859-7:1987 sun_eu_greek"
    ),
    "iso-8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 "
        "iso_8859-8:1988 visual"
    ),
    "iso-8859-8-i": "csiso88598i logical",
    "iso-8859-10": "csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso8859-13 iso885913",
    "iso-8859-14": "iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "",
    "koi8-r": "cskoi8r koi koi8 koi8_r",
    "koi8-u": "koi8-ru",
    "macintosh": "csmacintosh mac x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "windows-1250": "cp1250 x-cp1250",
    "windows-1251": "cp1251 x-cp1251",
    "windows-1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
        "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252"
    ),
    "windows-1253": "cp1253 x-cp1253",
    "windows-1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
        "x-cp1254"
    ),
    "windows-1255": "cp1255 x-cp1255",
    "windows-1256": "cp1256 x-cp1256",
    "windows-1257": "cp1257 x-cp1257",
    "windows-1258": "cp1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "gb18030": "",
    "big5": "big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese x-euc-jp",
    "iso-2022-jp": "csiso2022jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "euc-kr": (
        "cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"
    ),
    "utf-16be": "unicodefffe",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
    "x-user-defined": "",
}
_BY_LABEL = {label: name for name, labels in _LABELS.items() for label in (name, *labels.split())}

_MULTI_BYTE = {
    UTF_8: "utf-8",
    UTF_16LE: "utf-16-le",
    UTF_16BE: "utf-16-be",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",
    "iso-2022-jp": "iso2022_jp",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}
_PYTHON_NAMES = {
    "iso-8859-8-i": "iso-8859-8",
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "windows-874": "cp874",
}
# Differences between Python's tables and the standard's.
_AMENDMENTS = {"koi8-u": {0xAE: "ў", 0xBE: "Ў"}, "windows-1255": {0xCA: "\u05ba"}}


def encoding_for_label(label: str) -> str | None:
    """Return the encoding that a label stands for; None if the standard has no such label."""
    return _BY_LABEL.get(label.strip("\t\n\f\r ").lower())


def python_codec(encoding: str) -> str:
    """Return the name of Python's codec for an encoding; UTF-8 where Python has none."""
    name = _MULTI_BYTE.get(encoding) or _PYTHON_NAMES.get(encoding, encoding)
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "utf-8"


def is_single_byte(encoding: str) -> bool:
    return encoding not in _MULTI_BYTE


def decode_with(body: bytes, encoding: str) -> tuple[str, int]:
    """Decode `body`; return the text and the number of U+FFFD replacements."""
    codec = _MULTI_BYTE.get(encoding)
    if codec is None:
        # A table without gaps takes the same time for any input. Python's error handler takes 0.25 µs for
        # each bad byte: 8 s for the largest body that is allowed.
        text = codecs.charmap_decode(body, "strict", decoding_table(encoding))[0]
        return text, text.count("\ufffd")
    try:
        return body.decode(codec), 0
    except UnicodeDecodeError:
        text = body.decode(codec, "replace")
    # U+FFFD that the page itself contains is not a replacement.
    original = body.count("\ufffd".encode(codec)) if codec.startswith("utf") else 0
    return text, max(1, text.count("\ufffd") - original)


@cache
def decoding_table(encoding: str) -> str:
    """Return the characters for the 256 bytes of a single-byte encoding, U+FFFD where it has none."""
    if encoding == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    table = list(bytes(range(256)).decode(_PYTHON_NAMES.get(encoding, encoding), "replace"))
    for byte in range(0x80, 0xA0):  # no gaps here: unassigned bytes are control characters
        if table[byte] == "\ufffd":
            table[byte] = chr(byte)
    for byte, character in _AMENDMENTS.get(encoding, {}).items():
        table[byte] = character
    return "".join(table)


def decode_pieces(pieces: Iterable[bytes], encoding: str) -> Iterator[str]:
    """Decode a body that arrives in pieces."""
    if is_single_byte(encoding):
        for piece in pieces:
            yield decode_with(piece, encoding)[0]
        return
    decoder = codecs.getincrementaldecoder(_MULTI_BYTE[encoding])("replace")
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def without_surrogates(value: Any) -> Any:
    """Return a JSON value in which `?` replaces lone surrogates, which cannot be encoded."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case dict():
            return {without_surrogates(name): without_surrogates(one) for name, one in value.items()}
        case list():
            return [without_surrogates(one) for one in value]
    return value
