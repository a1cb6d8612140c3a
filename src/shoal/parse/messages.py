"""The messages between the pool and its fork server."""

import logging
from typing import assert_never

import msgspec

from shoal.model.limits import ParseLimits
from shoal.model.sandbox import SandboxRules
from shoal.spider.pickled import PickledSpider
from shoal.spider.source import (
    PlainSpider,
    SpiderDescription,
    SpiderFile,
    SpiderModule,
    SpiderSource,
    SpiderText,
)


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Pool: load this spider."""

    source: SpiderSource
    limits: ParseLimits
    path: tuple[str, ...]  # the pool's sys.path, so that the spider can import what the user's program can
    sandbox: SandboxRules = SandboxRules()
    log_level: int = logging.WARNING  # from which on the spider's own log records are wanted

    @property
    def where(self) -> str:
        """The spider's path or name, for error messages."""
        match self.source:
            case SpiderFile(path):
                return path
            case SpiderModule(module):
                return module
            case PlainSpider(name) | PickledSpider(name) | SpiderText(name):
                return name
        assert_never(self.source)


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Pool: start a child on the socket that comes with this message."""

    child: int
    token: int


class Sandboxed(msgspec.Struct, frozen=True, tag="sandboxed"):
    """Fork server: it is in its sandbox. Sent once, before user code runs and could send it."""

    held: tuple[str, ...]  # the guarantees that hold


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Fork server: the spider is loaded."""

    description: SpiderDescription


class SpiderLoadFailed(msgspec.Struct, frozen=True, tag="refused"):
    """Fork server: the spider cannot be loaded."""

    reason: str  # one line


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """Fork server: a child has started; its pidfd comes with this message.

    The pool kills with it. No process that runs user code can signal another one.
    """

    child: int


class ChildExited(msgspec.Struct, frozen=True, tag="exited"):
    """Fork server: a child has ended."""

    child: int
    status: int  # negative: the signal
    cpu: float  # CPU seconds over its whole life


FromPool = Start | Fork
FromZygote = Sandboxed | Ready | SpiderLoadFailed | Forked | ChildExited

encode = msgspec.msgpack.Encoder().encode
decode_from_pool = msgspec.msgpack.Decoder(FromPool).decode
decode_from_zygote = msgspec.msgpack.Decoder(FromZygote).decode
