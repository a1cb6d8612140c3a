"""Bytes to text: encodings, content types, dates. Imports nothing else of `spider`."""
