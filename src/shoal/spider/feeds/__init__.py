"""Sitemaps, RSS and Atom, read by a tokenizer that is safe on untrusted XML."""
