"""What a crawl has spent on exits, and hosts whose exits are chosen in another way, as people read it."""

from shoal.cli.views.format import duration, size
from shoal.model.exits.refusal import HostExits, describe
from shoal.model.exits.spending import Spending


def spending_text(spending: Spending) -> str:
    """Return traffic and cost, the part of the budget that is spent, and the traffic by kind of exit."""
    kinds = sorted(spending.kinds.items(), key=lambda pair: -pair[1])
    by_kind = ", ".join(f"{kind} {size(number)}" for kind, number in kinds)
    cost = f", cost {spending.cost:,.2f}" if spending.cost else ""
    budget = f", {100 * spending.share:.0f} % of the budget" if spending.share else ""
    return f"{size(spending.bytes)}{cost}{budget} ({by_kind})"


def refusal_text(change: HostExits, now: float) -> str:
    """Return what a host that refuses addresses did, and how its exits are chosen for now."""
    why = f"answered 403 to {change.refused} of {change.responses} requests"
    return f"{why}: {describe(change)}, for {duration(max(change.until - now, 0.0))} more"
