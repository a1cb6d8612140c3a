"""How many workers a fleet needs: what the store shows (`observe`), and what follows from it (`rules`).

A stage is a role, and for fetching a pool. For each, `wanted_workers` computes a number and its reason.
Growing happens at once; shrinking waits until the lower number has been enough for a while (`stabilize`), so
that a short gap between two bursts stops no worker.
"""
