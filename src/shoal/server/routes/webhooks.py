"""Webhooks: events that the server sends to other programs."""

from shoal.model.api.crawls import Nothing
from shoal.model.api.webhooks import NewWebhook, OneWebhook, RemovedWebhook, WebhookInfo, WebhookList
from shoal.server.state.context import ApiServer
from shoal.services.webhooks import manage


async def list_all_webhooks(server: ApiServer, params: Nothing) -> WebhookList:
    """List the webhooks, with what was delivered and what waits."""
    return WebhookList(webhooks=await manage.list_webhooks(server.dsn))


async def create_webhook(server: ApiServer, params: Nothing, body: NewWebhook) -> WebhookInfo:
    """Add a webhook. The answer has the secret that its deliveries are signed with: this is the only time."""
    return await manage.create_webhook(server.settings, body)


async def delete_webhook(server: ApiServer, params: OneWebhook) -> RemovedWebhook:
    """Remove a webhook and what was to be delivered to it."""
    await manage.delete_webhook(server.dsn, params.webhook)
    return RemovedWebhook(name=params.webhook)
