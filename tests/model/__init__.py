"""The model: the frontier's contract in plain Python, without optimisation.

Each call looks at everything, so that the code shows what the contract means. The other backends have to
return the same results (`tests/contract/test_frontier_model.py`).
"""

from tests.model.frontier import MemoryFrontier

__all__ = ["MemoryFrontier"]
