"""Requests and answers: routes as data, the ASGI application, its OpenAPI document, limits on connections."""
