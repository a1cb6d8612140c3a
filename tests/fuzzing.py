"""Fuzz a parser of outside text: its errors, its time and its memory.

A `Parser` names a function of bytes, valid samples of what it reads, and tokens of its grammar. Three checks run on it:

- `check_errors`: samples are cut, spliced, repeated and damaged at random, and tokens are joined at random. The parser
  returns, or raises one of the errors that its callers expect.
- `check_growth`: one or two tokens are repeated, alone and inside a sample, at n and 4n. The time may grow about
  fourfold; a quadratic loop, a backtracking regular expression or recursion grows sixteenfold or fails.
- `check_memory`: the same inputs at the largest size. The process may grow by a multiple of the input.

Inputs are the same in every run: a failure names the parser and the input, which is enough to repeat it.
Times are CPU times of the thread, as ratios, so that a loaded machine changes nothing.
"""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, product
from pathlib import Path
from random import Random
from typing import Any

KIB, MIB = 1024, 1024 * 1024

_FIRST_BYTES = 2 * KIB  # the smallest input of `check_growth`
_STEP = 4
_NOTICED_S = 0.02  # below this, a time says nothing about growth
_ENOUGH_S = 0.3  # above this, no larger input is tried
_MAX_RATIO = 10.0  # of two times, for inputs that differ by `_STEP`; linear: 4, quadratic: 16
_RANDOM_BYTES = (
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"&#xD800;",
    b"&#0;",
    b"\r\n",
    b"9" * 5000,
)


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser of outside text, and what to try on it."""

    name: str
    parse: Callable[[Any], object]  # of what `prepare` returns
    samples: tuple[bytes, ...]  # valid inputs
    tokens: tuple[bytes, ...]  # pieces of its grammar
    raises: tuple[type[Exception], ...] = ()  # errors that its callers expect
    prepare: Callable[[bytes], Any] = bytes  # runs before, and is not timed
    max_bytes: int = 1 * MIB  # the largest input that reaches it
    seconds_per_mib: float = 2.0  # of the slowest input
    memory_factor: int = 60  # bytes of memory for each byte of the slowest input, beyond 32 MiB


def check_errors(parser: Parser, *, rounds: int, seed: int = 0) -> None:
    """Run the parser on `rounds` damaged inputs. Raises `AssertionError` for an error that is not expected."""
    random = Random(f"{parser.name} {seed}")
    for _ in range(rounds):
        run(parser, _damaged(parser, random))


def run(parser: Parser, data: bytes) -> None:
    """Run the parser on one input. Raises `AssertionError` for an error that is not expected."""
    _time(parser, data)


def _time(parser: Parser, data: bytes) -> float:
    """Run the parser on one input, and return the CPU time of the thread that it took."""
    try:
        prepared = parser.prepare(data)
        began = time.thread_time()
        parser.parse(prepared)
        return time.thread_time() - began
    except parser.raises:
        return time.thread_time() - began
    except Exception as error:
        raise AssertionError(f"{parser.name}: {type(error).__name__}: {error} for {_shown(data)}") from error


def check_growth(parser: Parser, *, max_bytes: int = 1 * MIB, shapes: int = 1000) -> None:
    """Compare the times of repeated tokens at n and 4n. Raises `AssertionError` for more than linear growth."""
    for shape in islice(_shapes(parser), shapes):
        _check_shape(parser, shape, min(max_bytes, parser.max_bytes))


def check_memory(parser: Parser, *, max_bytes: int = 1 * MIB, shapes: int = 1000) -> None:
    """Compare the growth of the process with the size of the input. Raises `AssertionError` above the factor."""
    gc.collect()
    for shape in islice(_shapes(parser), shapes):
        data = shape.of(min(max_bytes, parser.max_bytes))
        grown = _peak_growth(lambda data=data: run(parser, data))  # type: ignore[misc]
        allowed = parser.memory_factor * len(data) + 32 * MIB
        assert grown <= allowed, f"{parser.name}: {grown // MIB} MiB for {len(data)} bytes of {shape}"


@dataclass(frozen=True, slots=True)
class _Shape:
    """An input of any size: tokens repeated inside a sample."""

    before: bytes
    repeated: tuple[bytes, ...]  # each n times: `((` and `))`, or together n times if there is one
    after: bytes

    def of(self, size: int) -> bytes:
        each = max(1, (size - len(self.before) - len(self.after)) // sum(map(len, self.repeated)))
        return self.before + b"".join(token * each for token in self.repeated) + self.after

    def __str__(self) -> str:
        return f"{_shown(self.before)} + {' + '.join(f'{_shown(one)} * n' for one in self.repeated)} + {_shown(self.after)}"


def _shapes(parser: Parser) -> Iterator[_Shape]:
    random = Random(parser.name)
    for token in random.sample(parser.tokens, len(parser.tokens)):
        yield _Shape(b"", (token,), b"")
    pairs = list(product(parser.tokens, parser.tokens))
    random.shuffle(pairs)
    for one, other in pairs:
        yield _Shape(b"", (one, other), b"")
        yield _Shape(b"", (one + other,), b"")
        sample = random.choice(parser.samples)
        cut = random.randrange(len(sample) + 1)
        yield _Shape(sample[:cut], (one + other,), sample[cut:])


def _check_shape(parser: Parser, shape: _Shape, max_bytes: int) -> None:
    size, before = min(_FIRST_BYTES, max_bytes), 0.0
    while True:
        data = shape.of(size)
        taken = _time(parser, data)
        if taken > _NOTICED_S and before and taken > _MAX_RATIO * before:
            _confirm_growth(parser, shape, size)
        allowed = max(0.3, parser.seconds_per_mib * len(data) / MIB)
        if taken > allowed:  # a busy machine: the best of a few counts
            taken = min(taken, _time(parser, data), _time(parser, data))
        assert taken <= allowed, f"{parser.name}: {taken:.3f} s for {len(data)} bytes of {shape}"
        if taken > _ENOUGH_S or size * _STEP > max_bytes:
            return
        size, before = size * _STEP, max(taken, 1e-4)


def _confirm_growth(parser: Parser, shape: _Shape, size: int) -> None:
    """Measure again, one step further. Raises `AssertionError` if the time grows out of proportion twice in a row.

    Once may be the first call, which imports, or a limit that turns one long token into many short ones.
    """
    sizes = (size // _STEP, size, size * _STEP)
    times = [max(min(_time(parser, shape.of(one)) for _ in range(2)), 1e-4) for one in sizes]
    ratios = [later / earlier for earlier, later in pairwise(times)]
    assert min(ratios) <= _MAX_RATIO, f"{parser.name}: {times} s for {sizes} bytes of {shape}"


def _peak_growth(call: Callable[[], object]) -> int:
    """Return by how many bytes the process was larger during the call than before it, C libraries included."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status_bytes("VmRSS")
    call()
    return _status_bytes("VmHWM") - before


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith(f"{name}:"))


def _damaged(parser: Parser, random: Random) -> bytes:
    if random.random() < 0.3:
        return b"".join(random.choices(parser.tokens, k=random.randrange(1, 40)))
    data = bytearray(random.choice(parser.samples))
    for _ in range(random.randrange(1, 8)):
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.randrange(1, 32))
        match random.randrange(7):
            case 0:
                del data[at:]
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end] * random.randrange(1, 50)
            case 3:
                data[at:at] = random.choice(parser.tokens) * random.choice((1, 2, 300))
            case 4:
                data[at:at] = random.choice(_RANDOM_BYTES)
            case 5:
                data[at:end] = random.randbytes(end - at)
            case _:
                other = random.choice(parser.samples)
                data[at:end] = other[random.randrange(len(other) + 1) :]
    return bytes(data[: parser.max_bytes])


def _shown(data: bytes) -> str:
    return repr(data) if len(data) <= 200 else f"{data[:150]!r}...{data[-40:]!r} ({len(data)} bytes)"
