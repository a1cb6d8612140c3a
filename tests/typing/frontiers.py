"""Every backend fits the contract of a frontier. mypy checks this module; it is never run."""

from tests.model import MemoryFrontier

from shoal.frontier.contract import Frontier, FrontierReader
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.sqlite import SqliteFrontier, SqliteReader


def frontiers(model: MemoryFrontier, sqlite: SqliteFrontier, redis: RedisFrontier) -> list[Frontier]:
    return [model, sqlite, redis]


def reader_beside_the_owner(reader: SqliteReader) -> FrontierReader:
    return reader
