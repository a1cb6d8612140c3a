"""The sink of an output: by the scheme of an address, or by the suffix of a path."""

from pathlib import Path

import msgspec

from shoal.backends import Backends, Builtin
from shoal.model.errors import Misconfigured
from shoal.sinks.contract import Sink, SinkCapabilities, SinkFactory
from shoal.sinks.names import STDOUT, is_address, public_name

GROUP = "shoal.sinks"
_SINKS = Backends(
    GROUP,
    SinkFactory,
    {
        STDOUT: Builtin("shoal.sinks.jsonl:STDOUT_FACTORY"),
        ".jsonl": Builtin("shoal.sinks.jsonl:FACTORY"),
        ".ndjson": Builtin("shoal.sinks.jsonl:FACTORY"),
        ".jsonl.gz": Builtin("shoal.sinks.jsonl:GZIP_FACTORY"),
        ".jsonl.zst": Builtin("shoal.sinks.jsonl:ZSTD_FACTORY"),
        ".csv": Builtin("shoal.sinks.csv:FACTORY"),
        ".csv.gz": Builtin("shoal.sinks.csv:GZIP_FACTORY"),
        ".csv.zst": Builtin("shoal.sinks.csv:ZSTD_FACTORY"),
        ".sqlite": Builtin("shoal.sinks.sqlite:FACTORY"),
        ".db": Builtin("shoal.sinks.sqlite:FACTORY"),
        ".parquet": Builtin("shoal.sinks.parquet:FACTORY", extra="parquet"),
        "postgresql": Builtin("shoal.sinks.postgres.factory:FACTORY"),  # names its extra itself
        "postgres": Builtin("shoal.sinks.postgres.factory:FACTORY"),
    },
)


class ResolvedOutput(msgspec.Struct, frozen=True):
    """An output with the factory of its sink."""

    output: str  # as the operator spelled it; it may contain a password
    factory: SinkFactory

    @property
    def name(self) -> str:
        """The output as the operator spelled it, without passwords."""
        return public_name(self.output)

    @property
    def capabilities(self) -> SinkCapabilities:
        is_file = self.output != STDOUT and not is_address(self.output)
        return SinkCapabilities(
            is_file=is_file,
            shared=self.factory.shared and not is_file,
            keeps_checkpoint=self.factory.open_checkpointed is not None,
            countable=self.factory.recount is not None,
        )


def resolve(output: str) -> ResolvedOutput:
    """Find the sink of an output, without touching the output.

    Raise `Misconfigured` if no sink is known for it, or if the packages that the sink needs are not
    installed.
    """
    factory = _SINKS.load(_find(output), subject=f"output {public_name(output)!r}")
    if output.endswith("/") and not is_address(output) and not factory.folder:
        raise Misconfigured(f"output {output!r}: this format is one file: leave out the / at the end")
    return ResolvedOutput(output, factory)


def open_sink(output: str, *, fsync: bool = False, overwrite: bool = False) -> Sink:
    """Open the sink of an output; nothing is touched before `restore`. `-` is standard output, as JSONL."""
    return resolve(output).factory.open(output, fsync=fsync, overwrite=overwrite)


def is_known_file(output: str) -> bool:
    """Return whether an output is a path, without importing its sink; raise if no sink is known."""
    _find(output)
    return output != STDOUT and not is_address(output)


def _find(output: str) -> str:
    """Return the name under which the sink of an output is registered."""
    if output == STDOUT:
        return STDOUT
    if is_address(output):
        scheme = output.partition("://")[0].lower()
        if scheme.startswith(".") or (found := _SINKS.find(scheme)) is None:
            # Name the scheme only: an address may contain a password.
            known = ", ".join(name for name in _SINKS.names() if name[:1] not in (".", STDOUT))
            raise Misconfigured(f"output: no sink for the scheme {scheme!r}; known: {known}")
        return found
    suffixes = [suffix.lower() for suffix in Path(output).suffixes]
    tails = ["".join(suffixes[start:]) for start in range(len(suffixes))]
    if (found := _SINKS.find(*tails)) is None:
        known = ", ".join(name for name in _SINKS.names() if name.startswith("."))
        raise Misconfigured(
            f"output {output!r}: the suffix chooses the format; known: {known}, and - for standard output"
        )
    return found
