"""Whether this machine and this store are fit for a crawl: facts are gathered first, then judged.

Gathering changes nothing and asks nobody on the network but the store of a fleet. Judging is pure, so that
every verdict can be tested without a machine that is ill.
"""

from shoal.services.doctor.examination import examine
from shoal.stores.contract.checks import Check, Grade

__all__ = ["Check", "Grade", "examine"]
