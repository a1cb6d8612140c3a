"""The files that `shoal init` writes."""
