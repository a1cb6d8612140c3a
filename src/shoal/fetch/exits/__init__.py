"""Exits in use: the list of this process, the choice for each request, and what their health is."""
