"""How many workers a fleet needs, for programs that start them."""

import msgspec

from shoal.model.api.problem import ApiError
from shoal.model.api.scaling import ScaleList, ScaleQuery, StageScale
from shoal.server.state.context import ApiServer
from shoal.services.autoscale.report import recommend, recommendation_json
from shoal.services.autoscale.rules import ScaleRules

SPAN_S = 1.0  # between the two looks that rates are computed from


async def show_wanted_workers(server: ApiServer, params: ScaleQuery) -> ScaleList:
    """Compute how many workers each role and pool needs, from two looks at the store a second apart."""
    if params.min > params.max:
        raise ApiError(422, "bad_bounds", f"min {params.min} is more than max {params.max}")
    rules = ScaleRules(min=params.min, max=params.max, drain_s=params.drain_s)
    [found] = [found async for found in recommend(server.dsn, rules, span=SPAN_S)]
    return ScaleList(
        workers=max((stage.workers for stage in found), default=params.min),
        stages=[msgspec.convert(recommendation_json(stage), StageScale) for stage in found],
    )
