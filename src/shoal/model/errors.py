"""Errors, grouped by what the caller can do about them.

What a web server does (timeouts, 503s, broken TLS) is data, a `Failure`, and never one of these.
"""

from collections.abc import Iterator


class ShoalError(Exception):
    """Base class of every error raised on purpose. Its message is one line, for a person."""


class Unavailable(ShoalError):
    """A store or peer does not respond: wait and try again."""


class Lost(ShoalError):
    """Data that was stored is gone, and no command removed it: trying again does not bring it back."""


class NoExit(ShoalError):
    """No proxy works: what was done is kept, and the same command resumes when one does."""


class Interrupted(ShoalError):
    """The operator asked to stop: what was done is kept, and the same command resumes."""


class Rejected(ShoalError):
    """This input will never work: record it and continue with the next."""


class Bomb(Rejected):
    """This input was built to expand to many times its size."""


class Blocked(Rejected):
    """This page is a block, by the user's own rules."""


class Misconfigured(ShoalError):
    """A person has to change something: stop at once, and say what and where."""


class DataFault(Exception):
    """The data of a store is not as it should be: it is damaged, or this is a bug."""


def unexpected(error: BaseException) -> BaseException | None:
    """Return an error whose traceback helps; None: its message says that data is damaged, or what to do."""
    import struct  # here: each command imports this module

    import msgspec

    known = ShoalError, DataFault, msgspec.MsgspecError, UnicodeError, struct.error
    return None if isinstance(error, known) else error


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside of exception groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
