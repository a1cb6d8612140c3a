"""Commands that keep only the first few requests of a host in the server: `spilling_worker.py worker ...`.

The number is not a setting. This changes the product from outside, so that a small
site has a tail that is long enough.
"""

from shoal.cli.main import main
from shoal.frontier.redis.spill import Spilling

if __name__ == "__main__":
    defaults = Spilling.__init__.__kwdefaults__
    assert defaults is not None
    defaults |= {"high_water": 6, "chunk": 4, "check_every": 1}
    main()
