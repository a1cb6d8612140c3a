"""A client with the fingerprint of a browser, and the loopback proxy that it goes through."""
