"""Read the record of a crawl as input that anyone with access to the store may have written.

`read_record` is the only way from the bytes of a store to a `CrawlRecord`: every field has a type, a size
and a form, and every setting the range that it has in `shoal.toml`. What a worker then allows a crawl to do
is decided by its operator (`shoal.worker.rules`).
"""

import hashlib
import hmac
import math
import re
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from shoal.model.configuration.configure import TYPES, SettingValue, configure
from shoal.model.configuration.output_patterns import check_address, check_path, is_address
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.printable import name_fault
from shoal.model.settings import Settings
from shoal.spider.source import PlainSpider, SpiderFile, SpiderModule, StoredSpiderSource
from shoal.stores.contract.crawl_record import CrawlRecord

MAX_RECORD_BYTES = 64 << 20  # a crawl of a million start URLs has a record of 30 MiB
MAX_SPIDER_BYTES = 8 << 20
MAX_COOKIES_BYTES = 8 << 20
MAX_OUTPUTS = 64
MAX_ARGUMENTS = 1_000
MIN_KEY_BYTES = 32
_MAX_KEY_FILE_BYTES = 4096
_FILE_NAME = re.compile(r"[^/\0]{1,200}\.(?:py|toml)")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){0,31}", re.ASCII)
_ARGUMENT_NAME = re.compile(r"[^\W\d]\w{0,199}")
_ATTRIBUTE = re.compile(r"(?:[A-Za-z_]\w{0,199})?", re.ASCII)
_VERSION = re.compile(r"[0-9a-z]{0,64}")
_HOST = re.compile(r"(?:\*\.)?[^\s/\\@\0]{1,260}")
_ORIGIN = re.compile(r"https?://[^\s/\\@\0]{1,260}")
_COOKIE_TEXT = re.compile(r"[^\x00-\x1f\x7f;]*")
_decode = msgspec.msgpack.Decoder(CrawlRecord).decode
_TABLES = {key.rpartition(".")[0] or key for key in TYPES} - {"store"}
_DEFAULTS: dict[str, Any] = msgspec.to_builtins(Settings())


def read_record(name: str, packed: bytes) -> CrawlRecord:
    """Return the record that is stored under a name; raise `Rejected` with the field that is wrong."""
    if len(packed) > MAX_RECORD_BYTES:
        raise Rejected(f"larger than {MAX_RECORD_BYTES >> 20} MiB")
    try:
        record = _decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Rejected(f"not a record of a crawl: {str(error)[:200]}") from None
    check_record(name, record)
    return record


def check_record(name: str, record: CrawlRecord) -> None:
    """Raise `Rejected` for a record that no worker would take."""
    _require(not name_fault(record.name), f"name: {name_fault(record.name)}")
    _require(record.name == name, "name: the record is stored under another name")
    _require(0 <= record.number < 1 << 62, "number: not a number of a generation")
    _check_source(record.source)
    _require(len(record.text) <= MAX_SPIDER_BYTES, f"text: larger than {MAX_SPIDER_BYTES >> 20} MiB")
    _require(_VERSION.fullmatch(record.version), "version: not a digest")
    _require(math.isfinite(record.submitted_at), "submitted_at: not a time")
    for host in record.hosts or ():
        _require(_HOST.fullmatch(host) and host.isprintable(), "hosts: not the name of a host")
    for origin in record.home:
        _require(_ORIGIN.fullmatch(origin) and origin.isprintable(), "home: not an origin")
    _require(len(record.outputs) <= MAX_OUTPUTS, f"outputs: more than {MAX_OUTPUTS}")
    for output in record.outputs:
        _check_place("outputs", output)
    _check_cookies(record.cookies)
    try:
        settings = settings_of(record)
    except Misconfigured as error:
        raise Rejected(str(error)) from None
    if settings.archive.location:
        location = settings.archive.location
        # A folder may be relative: then it is below the folder of each worker.
        _check_place("archive.location", location if is_address(location) else str(Path("/", location)))


def settings_of(record: CrawlRecord) -> Settings:
    """Return the settings that a crawl was submitted with, checked like those of a file.

    Those of the machine stay behind: the store, and what its workers allow.
    """
    for table in _TABLES:
        if not isinstance(record.settings.get(table, {}), Mapping):
            raise Misconfigured(f"settings of the crawl: {table} is not a table")
    settings = configure(
        SettingValue(key, value, f"settings of the crawl: {key}")
        for key in TYPES
        if key != "store"
        and not key.startswith(("worker.", "proxies.", "alerts.", "browser.", "tracing."))
        and (value := _leaf(record.settings, key)) is not None
        and value != _leaf(_DEFAULTS, key)
    )
    return replace(settings, store="")


def _leaf(tree: Mapping[str, Any], key: str) -> Any:
    """Return a value of a tree, without the parts of it that are not set; None: not set."""
    value: Any = tree
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if key == "hosts" and isinstance(value, Mapping):
        return {
            host: {k: v for k, v in block.items() if v is not None} if isinstance(block, Mapping) else block
            for host, block in value.items()
        }
    return value


def _check_source(source: StoredSpiderSource) -> None:
    match source:
        case SpiderFile(path, attribute, arguments):
            _check_arguments(arguments)
            named = _FILE_NAME.fullmatch(path) and path.isprintable() and not path.startswith(".")
            _require(named, "source: not the name of a spider's file, such as books.py")
            _require(_ATTRIBUTE.fullmatch(attribute), "source: not the name of a variable")
        case SpiderModule(module, attribute, arguments, folder):
            _check_arguments(arguments)
            _require(not folder, "source: a record names no folder")
            _require(_MODULE.fullmatch(module), "source: not the name of a module")
            _require(_ATTRIBUTE.fullmatch(attribute), "source: not the name of a variable")
        case PlainSpider(name, start, items):
            _require(not name_fault(name), f"source: the name {name_fault(name)}")
            _require(all(len(url) <= 65_536 for url in start), "source: a start URL is too long")
            fields = all(len(field) <= 1_000 and len(css) <= 65_536 for field, css in items.items())
            _require(len(items) <= 10_000 and fields, "source: too many fields, or too long ones")


def _check_arguments(arguments: Mapping[str, tuple[str, ...]]) -> None:
    texts = [text for values in arguments.values() for text in values]
    _require(len(arguments) <= MAX_ARGUMENTS and len(texts) <= MAX_ARGUMENTS, "source: too many arguments")
    _require(all(map(_ARGUMENT_NAME.fullmatch, arguments)), "source: not the name of an argument")
    _require(all(len(text) <= 65_536 for text in texts), "source: an argument is too long")


def _check_place(field: str, place: str) -> None:
    try:
        (check_address if is_address(place) else check_path)(place)
    except Rejected as error:
        raise Rejected(f"{field}: {error}") from None


class _Cookie(msgspec.Struct):
    """The texts of a stored cookie that become part of a request."""

    name: str
    value: str
    domain: str
    path: str


def _check_cookies(dumped: bytes) -> None:
    _require(len(dumped) <= MAX_COOKIES_BYTES, f"cookies: larger than {MAX_COOKIES_BYTES >> 20} MiB")
    try:
        cookies = msgspec.json.decode(dumped, type=list[_Cookie])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(f"cookies: {str(error)[:200]}") from None
    for cookie in cookies:
        texts = (cookie.name, cookie.value, cookie.domain, cookie.path)
        _require(all(map(_COOKIE_TEXT.fullmatch, texts)), "cookies: a cookie has forbidden characters")


def _require(condition: object, reason: str) -> None:
    if not condition:
        raise Rejected(reason)


def sign_record(key: bytes, name: str, packed: bytes) -> bytes:
    """Return the signature of a stored record. It covers the name, so that no record passes for another."""
    encoded = name.encode()
    message = b"shoal crawl record\0%d\0%b\0%b" % (len(encoded), encoded, packed)
    return hmac.new(key, message, hashlib.sha256).digest()


def check_signature(key: bytes, name: str, packed: bytes, signature: bytes | None) -> None:
    """Raise `Rejected` for a record that was not signed with the key."""
    if signature is None:
        raise Rejected(
            "it is not signed, and this worker takes signed crawls only:"
            " submit it with worker.record_key_file set"
        )
    if not hmac.compare_digest(sign_record(key, name, packed), signature):
        raise Rejected("its signature does not fit: it was changed, or signed with another key")


def read_record_key(path: str | None) -> bytes:
    """Return the key that records are signed with; empty: they are not."""
    return read_key_file("worker.record_key_file", path)


def read_key_file(setting: str, path: str | None) -> bytes:
    """Return the key in a file, or nothing without one. Errors never show what the setting says."""
    if path is None:
        return b""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_KEY_FILE_BYTES:
            raise Misconfigured(f"{setting}: not a file with a key")
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise Misconfigured(f"{setting}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise Misconfigured(f"{setting}: not the name of a file") from None
    if len(key) < MIN_KEY_BYTES:
        raise Misconfigured(
            f"{setting}: fewer than {MIN_KEY_BYTES} characters in it: write a random key with"
            " openssl rand -hex 32"
        )
    return key
