"""One change of one place of a source file."""

from typing import NamedTuple


class Mutant(NamedTuple):
    path: str  # from the repository's root
    line: int
    kind: str
    start: int  # the changed bytes of the file
    end: int
    text: str  # what stands there instead
    before: str  # the line as it is

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}:{self.kind}"

    def apply(self, source: bytes) -> bytes:
        """Return the source with the change made."""
        return source[: self.start] + self.text.encode() + source[self.end :]
