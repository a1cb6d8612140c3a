"""The frontier of a fleet: scripts in Redis or Valkey that any number of workers call.

`keys.py` documents the key space; a script is the fragments it needs and its own file (`scripts.py`).
"""
