"""Cursors: opaque text that says where the next page of a list begins."""

import base64
import binascii
from typing import TypeVar

import msgspec

from shoal.model.api.problem import ApiError

T = TypeVar("T")


def encode_cursor(position: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def decode_cursor(text: str, kind: type[T]) -> T | None:
    """Return the position of a cursor; None: the beginning. Raise 400 if this server did not make it."""
    if not text:
        return None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=kind)
    except (UnicodeEncodeError, binascii.Error, ValueError, msgspec.MsgspecError):
        raise ApiError(400, "bad_cursor", "this is not a cursor of this list: begin without one") from None
