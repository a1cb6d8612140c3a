"""The bus: pages that were fetched by one worker, on their way to another one that parses them.

This is the contract that every backend keeps; `tests/contract/test_bus.py` runs it on real servers.

Announcing is not a call of the bus. A page is announced by the step of the store that settles it as fetched:
it can be neither settled and unannounced nor announced twice. The bus brings what was announced to consumers,
at least once. That a page counts once is the store's doing again: whoever acknowledges it second is refused.

deliver(limit, wait) hands out pages that nobody has, as soon as there are any, at most `wait` seconds from
now. It costs the server nothing to have thousands of consumers wait. A page that has been handed out before,
and whose consumer has not been heard of for a `deadline`, is handed out again, alone, and with the number of
its deliveries: its consumer may have died of it, and the next one may want to give it up. Where the backend
can tell, a consumer gets the next such page when it is done with the one before, so that a page that kills
takes no other one with it time and again. `limit` may be exceeded by a few when pages arrive in several
shards at once.

extend(deliveries) says that they are still being worked at, and returns those that are not known to belong to
somebody else by now. Say it at least twice within a deadline.

done(deliveries) takes pages off the bus. Call it when the store has answered to the acknowledgement, be it
that it was accepted or refused: what is not taken off comes again. `Delivery.consumer` belongs into the
acknowledgement; where a backend can tell, a consumer that has lost a page is refused by it.

release(deliveries) gives pages back, so that they come again within one deadline at most, and without a
strike: a worker that stops on purpose is no reason to suspect a page. Strikes of before stay.

relay() brings what was announced to where it is delivered from, until cancelled, and returns at once where
that is one place. Every consumer runs it; one at a time does the work.

lag() says how many pages are waiting and how many are being worked at, give or take those that are just
changing from one to the other.

After kill -9 of a consumer its pages come again within twice the deadline. After kill -9 of the server and a
restart everything that was announced is still delivered. A server of a queue of its own that comes back with
nothing, or loses what it had, is noticed by the relay: what it lost is announced again.
"""

from shoal.bus.contract import Bus, Delivery, Lag, Reannounce
from shoal.bus.registry import open_bus

__all__ = ["Bus", "Delivery", "Lag", "Reannounce", "open_bus"]
