"""`python -m shoal` is the `shoal` command.

The command is imported inside of a function, so that Ctrl-C during the imports ends it without a traceback.
"""

import gc
import sys

# Objects between two collections: a crawl imports 84,000, which stay, and looking at them takes 40 ms.
IMPORT_THRESHOLD = 150_000

_INTERRUPTED = 3  # `cli.process.exit_codes.ExitCode.INTERRUPTED`, which is not imported yet


def main() -> None:
    """Run the command that the process was started with, and exit."""
    gc.set_threshold(IMPORT_THRESHOLD)
    try:
        from shoal.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    try:
        run()
    except KeyboardInterrupt:  # between two handlers
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
