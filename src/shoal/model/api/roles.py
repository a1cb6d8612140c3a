"""Roles of API tokens. Each includes the ones before it."""

from enum import StrEnum


class Role(StrEnum):
    READ = "read"  # see everything, change nothing
    OPERATE = "operate"  # submit, pause, resume, replay, scrape
    ADMIN = "admin"  # delete, purge, webhooks, and what makes a crawl less polite

    def includes(self, other: "Role") -> bool:
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)
