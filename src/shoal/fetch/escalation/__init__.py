"""Escalation: the level at which each request is made, and what is learned from how it went."""
