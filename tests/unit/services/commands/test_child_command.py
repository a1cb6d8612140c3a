"""Commands in child processes: what they print is bounded, what cannot be started is an error of a family."""

import asyncio
import sys

import pytest

from shoal.model.errors import Misconfigured
from shoal.services.commands import child_command
from shoal.services.commands.child_command import spawn_command, wait_for_end

_TALK = """
import sys
for number in range(2000):
    sys.stdout.write("o" * 1000)
    sys.stderr.write(f"{number} " + "e" * 1000 + "\\n")
sys.stderr.write("the last line\\n")
sys.exit(7)
"""


async def test_a_command_that_prints_for_long_keeps_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_command, "MAX_OUTPUT_BYTES", 10_000)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _TALK, stdout=pipe, stderr=pipe)
    result = await wait_for_end(process)
    assert (result.code, len(result.output), result.message) == (7, 10_000, "the last line")


@pytest.mark.parametrize("argument", ["a\0b", "x" * 200_000], ids=["NUL", "longer than the kernel takes"])
async def test_arguments_that_no_command_can_have_are_misconfigured(argument: str) -> None:
    with pytest.raises(Misconfigured):
        await spawn_command(["crawl", argument], dsn="store")
