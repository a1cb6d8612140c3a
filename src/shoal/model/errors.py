"""Errors by what the caller can do about them.

What the web does to us (time-outs, 503s, broken TLS) is data, a `Failure`, and never one of these.
"""


class ShoalError(Exception):
    """Root of every error raised on purpose. Its text is one line, for a person."""


class Unavailable(ShoalError):
    """A store or peer is not answering: wait and try again."""


class Interrupted(ShoalError):
    """Somebody asked to stop: what was done so far stays, and the same again goes on."""


class Rejected(ShoalError):
    """This input will never work: record it and move on."""


class Bomb(Rejected):
    """This input was made to become far larger than it is."""


class Misconfigured(ShoalError):
    """A human has to change something: stop at once, saying what and where."""
