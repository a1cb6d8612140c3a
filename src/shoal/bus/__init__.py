"""The bus delivers fetched pages to the workers that parse them.

Every backend keeps this contract; `tests/contract/test_bus.py` checks it on real servers.

The bus has no call to announce a page. The step of the store that settles a page as fetched also announces
it: no page is settled without being announced, and none is announced twice. The bus delivers what was
announced at least once. The store makes a page count once: it refuses the second acknowledgement.

`deliver(limit, wait)` returns pages that no consumer has, as soon as there are any, and at most `wait`
seconds from now. Thousands of waiting consumers cost the server nothing. A page whose consumer has not
responded for a `deadline` is delivered again, alone, with the number of its deliveries: it may have crashed
its consumer, and the next one may want to give it up. Where the backend knows who has a page, a consumer
gets the next such page after it is done with the one before, so that a page that crashes consumers never
takes another one with it. `limit` may be exceeded by a few when pages arrive in several shards at once.

`extend(deliveries)` renews the deadline, and returns those that are not known to belong to another consumer
by now. Call it at least twice within a deadline.

`done(deliveries)` removes pages from the bus. Call it when the store has answered the acknowledgement,
whether it accepted or refused it: pages that are not removed are delivered again. Put `Delivery.consumer`
into the acknowledgement; where the backend knows who has a page, the store refuses a consumer that has lost
it.

`release(deliveries)` returns pages to the bus without a strike, because a worker that stops on purpose is no
reason to suspect a page. They are delivered again within one deadline. Earlier strikes stay.

`relay()` moves pages from where they are announced to where they are delivered from, until it is cancelled.
It returns at once where both are the same. Every consumer runs it; one at a time does the work.

`backlog()` returns how many pages wait and how many are delivered. Pages that change from one to the other
during the call may be missing or counted twice.

After kill -9 of a consumer, its pages are delivered again within twice the deadline. After kill -9 of the
server and a restart, everything that was announced is still delivered. If a separate queue server comes
back empty or loses messages, the relay notices it, and the store announces the lost pages again.
"""

from shoal.bus.contract import Bus, BusBacklog, BusFactory, Delivery, Reannounce
from shoal.bus.registry import open_bus

__all__ = ["Bus", "BusBacklog", "BusFactory", "Delivery", "Reannounce", "open_bus"]
