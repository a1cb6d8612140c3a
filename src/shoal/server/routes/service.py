"""The server about itself: its OpenAPI document, and metrics."""

from shoal.model.api.crawls import Nothing
from shoal.server.http.answers import Answer
from shoal.server.state.context import ApiServer
from shoal.services.inspect.store_metrics import store_metrics


async def openapi(server: ApiServer, params: Nothing) -> Answer:
    """Return this document."""
    return Answer(200, server.openapi)


async def metrics(server: ApiServer, params: Nothing) -> Answer:
    """Return the figures of the store for Prometheus."""
    return Answer(200, await store_metrics(server.dsn), b"text/plain; version=0.0.4; charset=utf-8")
