"""Response headers, as handlers see them."""

from collections.abc import Iterable, Iterator, Mapping


class Headers(Mapping[str, str]):
    """Response headers: a mapping from name, in any case, to the first value of that name."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)
        self._first = dict(reversed(self._pairs))

    def __getitem__(self, name: str) -> str:
        return self._first[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._pairs))

    def __len__(self) -> int:
        return len(self._first)

    def getall(self, name: str) -> list[str]:
        """Return all values of a header that was sent more than once, such as `set-cookie`."""
        return [value for key, value in self._pairs if key == name.lower()]
