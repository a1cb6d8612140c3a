"""Metadata of a page: JSON-LD, microdata, Open Graph, and the main article."""
