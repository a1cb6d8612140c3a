"""Ask this machine which guarantees the sandbox can give, without loading a spider.

`probe` runs this module in a separate process, because no measure can be undone.
"""

import asyncio
import os
import sys

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.parse.sandbox import guarantees


async def probe(rules: SandboxRules) -> frozenset[str]:
    """Return the guarantees that hold here; raise `Misconfigured` if the rules require more."""
    if rules.mode is SandboxMode.OFF:
        return frozenset()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "shoal.parse.sandbox.probe", *sys.path),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise Unavailable(f"cannot start a process: {error}") from error
    output, _ = await process.communicate()
    held = frozenset(output.decode().split())
    if rules.mode is SandboxMode.REQUIRE and (reason := guarantees.refusal(held)):
        raise Misconfigured(reason)
    return held


def main() -> None:
    """Enter the sandbox and print the guarantees that hold."""
    from shoal.parse.sandbox import confine

    needed = [path for path in (os.getcwd(), *sys.argv[1:]) if path and os.path.exists(path)]
    held = confine.isolate(needed)
    held |= confine.restrict(())
    os.write(1, " ".join(sorted(held)).encode())


if __name__ == "__main__":
    main()
