"""The model: the frontier's contract in plain Python, with nothing clever in it.

Every answer is worked out by looking at everything, so what it does can be read off. Other backends have to
answer alike (`tests/contract/test_frontier_model.py`). It is also the store `memory:`, for small crawls that
need not survive their process.
"""

from tests.model.frontier import MemoryFrontier

__all__ = ["MemoryFrontier"]
