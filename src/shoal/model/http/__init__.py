"""HTTP, as requests use it: arguments that become URL, headers and body, and which headers are public."""
