"""The HTTP client: connections, DNS, the connect guard, decoding. Imports none of the modules of `fetch`."""
