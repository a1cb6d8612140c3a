"""Lines of a screen: pieces of text with a style, fitted to a window of any width."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from shoal.cli.views.format import count
from shoal.cli.views.words import STYLE, counts_ended
from shoal.model.printable import printable

Part = tuple[str, str]  # text, style
Line = Sequence[Part]
Figure = tuple[str, int, str]  # name, number, style

_LABEL = 11


def to_segments(lines: Iterable[Line], console: Console, options: ConsoleOptions) -> RenderResult:
    """Yield terminal segments for lines, each cut at the edge of the window."""
    for line in lines:
        room = options.max_width
        for raw, style in line:
            text = printable(raw[:room])  # the console does this as well, but after the line has its width
            yield Segment(text[:room], console.get_style(style) if style else None)
            room -= min(len(text), room)
        yield Segment.line()


def figures_of(counts: Mapping[str, int]) -> list[Figure]:
    """Return name, number and style of requests by plain word."""
    return [(word, number, STYLE[word]) for word, number in counts.items()]


def figure_lines(label: str, figures: Iterable[Figure], width: int) -> Iterator[Line]:
    """Yield lines of numbers with their names, after a label; zeros are left out where there is no room."""
    shown = list(figures)
    wanted = _LABEL + sum(len(f"{count(number)} {name}   ") for name, number, _ in shown)
    if wanted > width:
        shown = [figure for figure in shown if figure[1]] or shown[:1]
    line: list[Part] = [(f"{label:<{_LABEL}}", "dim")]
    used = _LABEL
    for name, number, style in shown:
        figure = f"{count(number)} {name}"
        if used + len(figure) > width and used > _LABEL:
            yield line
            line, used = [(" " * _LABEL, "")], _LABEL
        line += [(count(number), style if number else "dim"), (f" {name}   ", "" if number else "dim")]
        used += len(figure) + 3
    yield line


def wrapped(label: str, text: str, style: str, width: int, *, rows: int) -> Iterator[Line]:
    """Yield text after a label, on at most `rows` lines."""
    room = max(width - _LABEL, 10)
    pieces = textwrap.wrap(text, room, break_on_hyphens=False)
    if len(pieces) > rows:
        pieces = [*pieces[: rows - 1], f"{' '.join(pieces[rows - 1 :])[: room - 1]}…"]
    for number, piece in enumerate(pieces):
        yield [(f"{'' if number else label:<{_LABEL}}", "dim"), (piece, style)]


def progress_bar(counts: Mapping[str, int], width: int) -> Line:
    """Return a bar for the share of the known requests that has ended."""
    known = sum(counts.values())
    ended = sum(counts_ended(counts).values())
    share = ended / known if known else 0.0
    legend = f"  {int(share * 100)}% of {count(known)} known"
    room = max(min(width - len(legend), 60), 0)
    full = int(room * share)
    return [("━" * full, "green"), ("─" * (room - full), "bright_black"), (legend, "dim")]


def shorten(name: str, room: int) -> str:
    """Shorten a name in the middle: the start says what it is, the end which one."""
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[len(name) - end :]}"
