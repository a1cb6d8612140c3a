"""A worker that is killed as it finishes an output: `dying_writer.py worker ...`.

All items are in by then, and their streams are empty. This changes the product from outside, because a kill that
comes by chance hardly ever meets that moment.
"""

import os
import signal
from typing import Never

from shoal.cli.main import main
from shoal.sinks.parquet import ParquetSink


def die(sink: ParquetSink) -> Never:
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("SIGKILL ends the process")


if __name__ == "__main__":
    ParquetSink.finish = die  # type: ignore[method-assign,assignment]
    main()
