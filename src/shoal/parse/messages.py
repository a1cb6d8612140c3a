"""What pool and zygote say to each other."""

from typing import assert_never

import msgspec

from shoal.model.limits import ParseLimits
from shoal.spider.source import PlainSpider, SpiderDescription, SpiderFile, SpiderModule, SpiderSource


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Pool: load this spider."""

    source: SpiderSource
    limits: ParseLimits
    path: tuple[str, ...]  # the pool's own sys.path: the spider finds what its user's program finds

    @property
    def where(self) -> str:
        """Name the spider in messages to its author."""
        match self.source:
            case SpiderFile(path):
                return path
            case SpiderModule(module):
                return module
            case PlainSpider(name):
                return name
        assert_never(self.source)


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Pool: start a child on the socket that comes with this message."""

    child: int
    token: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Pool: end a child. Only the zygote can do that safely: it knows which process ids are still taken."""

    child: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Zygote: the spider is loaded."""

    description: SpiderDescription
    confinement: tuple[str, ...]  # the measures of `confine` that hold here


class SpiderRefused(msgspec.Struct, frozen=True, tag="refused"):
    """Zygote: the spider cannot be loaded."""

    reason: str  # one line


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """Zygote: a child is gone."""

    child: int
    status: int  # negative: the signal
    cpu: float  # seconds, over its whole life


FromPool = Start | Fork | Kill
FromZygote = Ready | SpiderRefused | Exited

encode = msgspec.msgpack.Encoder().encode
decode_from_pool = msgspec.msgpack.Decoder(FromPool).decode
decode_from_zygote = msgspec.msgpack.Decoder(FromZygote).decode
