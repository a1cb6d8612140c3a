"""Hosts: their pace, and pausing them."""

import msgspec

from shoal.model.api.hosts import HostInfo, HostLevel, HostList, ListHosts, OneHost
from shoal.model.api.problem import ApiError
from shoal.model.levels.learned import HostLevels
from shoal.model.url import host_name
from shoal.server.state.context import ApiServer
from shoal.services.control.hosts import HostView, host_json, show_host
from shoal.services.control.levels import host_level, host_levels_json
from shoal.services.inspect.status_json import queue_json


async def list_hosts(server: ApiServer, params: ListHosts) -> HostList:
    """List the hosts with requests, those that take longest at their pace first."""
    found = await server.live.slow_hosts(params.limit)
    hosts = [queue_json(queue) for queue in found.hosts]
    return msgspec.convert({"hosts": hosts, "hosts_held": found.held}, HostList)


async def show_one_host(server: ApiServer, params: OneHost) -> HostInfo:
    """Show the pace of a host and what limits it."""
    name = host_name(params.host)
    found = await show_host(server.dsn, name)
    if found is None:
        raise ApiError(404, "no_such_host", f"no crawl has requests for {name}")
    return host_info(found)


async def show_host_level(server: ApiServer, params: OneHost) -> HostLevel:
    """Show how the pages of a host are fetched: what was set, and what was learned."""
    return level_info(await host_level(server.dsn, host_name(params.host)) or HostLevels())


def level_info(known: HostLevels) -> HostLevel:
    return msgspec.convert(host_levels_json(known), HostLevel)


def host_info(host: HostView) -> HostInfo:
    return msgspec.convert(host_json(host), HostInfo)
