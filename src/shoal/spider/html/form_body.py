"""The entries of a form as bytes: a query, or a body in one of the three encodings of HTML. Pure."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from urllib.parse import quote_plus

from shoal.model.http.request_parts import FORM_TYPE
from shoal.spider.text.encodings import encoding_for_label, python_codec

MULTIPART = "multipart/form-data"
TEXT = "text/plain"

Entries = Sequence[tuple[str, str]]


def form_encoding(accept_charset: str, page_encoding: str) -> str:
    """Return the encoding that a form is sent in: the first that it accepts, else that of its page."""
    for label in accept_charset.replace(",", " ").split():
        if (encoding := encoding_for_label(label)) is not None:
            return _output_encoding(encoding)
    return _output_encoding(page_encoding)


def _output_encoding(encoding: str) -> str:
    return "utf-8" if encoding.startswith("utf-16") or encoding == "replacement" else encoding


def with_entries_as_query(url: str, entries: Entries, encoding: str) -> str:
    """Return the URL of a GET form: its entries replace the query."""
    address = url.partition("#")[0].partition("?")[0]
    return f"{address}?{_urlencoded(entries, encoding)}"


def encode_entries(
    entries: Entries, enctype: str, encoding: str, *, empty_files: Iterable[str] = ()
) -> tuple[str, bytes]:
    """Return the Content-Type and the body of a POST form. `empty_files` are upload fields without a file."""
    match enctype.strip().lower():
        case "multipart/form-data":
            return _multipart(entries, encoding, frozenset(empty_files))
        case "text/plain":
            lines = "".join(f"{_lines(name)}={_lines(value)}\r\n" for name, value in entries)
            return TEXT, _encode(lines, encoding)
    return FORM_TYPE, _urlencoded(entries, encoding).encode()


def _urlencoded(entries: Entries, encoding: str) -> str:
    return "&".join(f"{_quote(name, encoding)}={_quote(value, encoding)}" for name, value in entries)


def _quote(text: str, encoding: str) -> str:
    return quote_plus(_encode(_lines(text), encoding), safe="*").replace("~", "%7E")


def _multipart(entries: Entries, encoding: str, files: frozenset[str]) -> tuple[str, bytes]:
    parts = []
    for name, value in entries:
        quoted = _encode(_lines(name), encoding).replace(b"\r", b"%0D").replace(b"\n", b"%0A")
        head = b'Content-Disposition: form-data; name="%b"' % quoted.replace(b'"', b"%22")
        if name in files and not value:
            head += b'; filename=""\r\nContent-Type: application/octet-stream'
        parts.append(b"%b\r\n\r\n%b\r\n" % (head, _encode(_lines(value), encoding)))
    # Of the content: the same form gives the same request when its page is parsed again.
    boundary = b"----shoal" + sha256(b"\n".join(parts)).hexdigest()[:32].encode()
    body = b"".join(b"--%b\r\n%b" % (boundary, part) for part in parts) + b"--%b--\r\n" % boundary
    return f"{MULTIPART}; boundary={boundary.decode()}", body


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


def _encode(text: str, encoding: str) -> bytes:
    """Encode as browsers do: characters that the encoding lacks become references such as `&#8364;`."""
    text = text.encode("utf-8", "replace").decode()  # lone surrogates
    return text.encode(python_codec(encoding), "xmlcharrefreplace")
