"""The egress: a proxy on loopback through which clients that are not ours leave.

A client that impersonates a browser, or a browser, opens its own connections, follows redirects and loads
what pages name. It is given this proxy and nothing else, so that every one of its connections passes the
guard, leaves through the exit of its session, and is counted.
"""
