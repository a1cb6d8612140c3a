"""Exits: the upstream proxies through which requests leave. Values and pure rules."""
