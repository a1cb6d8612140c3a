"""The links of a page as the next generation needs them: all of them, without what depends on the page.

A parse child leaves out the links that it has already returned (`spider/html/seen_links`). If the page has
not changed in the next generation, its links are taken from here instead, so this has all of them. The same
link looks the same on every page, which makes it cheap to recognise: a link that depends on its URL alone is
that URL, any other one is a packed request.
"""

from collections.abc import Sequence

import msgspec
from isal import isal_zlib

from shoal.model.errors import Rejected
from shoal.model.request import Request, pack, unpack

_WINDOW_BITS = 15


class AllLinks(msgspec.Struct, frozen=True, array_like=True):
    urls: Sequence[str] = ()
    packed: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.urls) + len(self.packed)


_decode = msgspec.msgpack.Decoder(AllLinks).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_free(request: Request) -> bytes:
    """Pack a request without the page that yielded it."""
    return pack(msgspec.structs.replace(request, depth=0, found_on=0, via=()))


def unpack_free(packed: bytes, *, depth: int, found_on: int, via: tuple[str, ...]) -> Request:
    """Return the request for the page that yields it now; raise `Rejected` if it cannot be read."""
    try:
        request = unpack(packed)
    except msgspec.DecodeError as error:
        raise Rejected(f"not a request: {error}") from None
    return msgspec.structs.replace(request, depth=depth, found_on=found_on, via=via)


def pack_all(links: AllLinks) -> bytes:
    """Compress the links of a page."""
    packed: bytes = isal_zlib.compress(_encode(links), 0, _WINDOW_BITS)
    return packed


def unpack_all(packed: bytes, *, limit: int) -> AllLinks:
    """Return the links of a page; raise `Rejected` if there are more than `limit` bytes, or it is damaged."""
    if not packed:
        return AllLinks()
    inflate = isal_zlib.decompressobj(_WINDOW_BITS)
    try:
        plain = inflate.decompress(packed, limit + 1)
        if len(plain) > limit:
            raise Rejected(f"more than {limit} bytes of links")
        return _decode(plain)
    except (isal_zlib.error, msgspec.DecodeError) as error:  # type: ignore[misc]
        raise Rejected(f"the links of the page are damaged: {error}") from None
