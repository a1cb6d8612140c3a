"""Lines that are longer than the window: broken between words, and continued below their own text."""

import os
import re
from typing import TextIO

from shoal.model.printable import printable

MIN_WIDTH = 30  # a window that is narrower breaks lines by itself
_GAP = re.compile(r"(?<=\S)  +(?=\S)")  # between a label, or a column, and what follows
_COMMAND = re.compile(r"( *(?:Next: |Then: )?)(shoal .*?|the same command .*?)   (\(.*\))")


def window_width(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream writes to; 0: it is not a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError, AttributeError):
        return 0


def wrap(line: str, width: int) -> list[str]:
    """Return the lines for a window. Words stay whole, and so do commands in front of their explanation."""
    line = printable(line)
    if width < MIN_WIDTH or len(line) <= width:
        return [line]
    if command := _COMMAND.fullmatch(line):
        indent = " " * len(command[1])
        return [command[1] + command[2], *_break(indent + command[3], width, indent)]
    return _break(line, width, " " * _hanging(line, width))


def _hanging(line: str, width: int) -> int:
    """Return where the text of a line begins, after its label; labels take a third of the window at most."""
    gaps = [gap.end() for gap in _GAP.finditer(line, 0, width) if gap.end() <= width // 3]
    return gaps[-1] if gaps else len(line) - len(line.lstrip(" ")) + 2


def _break(line: str, width: int, indent: str) -> list[str]:
    lines = []
    while len(line) > width:
        at = line.rfind(" ", len(indent) + 1, width + 1)
        if at < 0 or not line[:at].strip():  # a word that does not fit: the terminal breaks it
            at = line.find(" ", max(width, len(indent) + 1))
            if at < 0:
                break
        lines.append(line[:at].rstrip())
        line = indent + line[at:].lstrip()
    return [*lines, line]
