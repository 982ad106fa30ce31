"""The databases every test here runs on."""

from tests.integration.controller.sql_databases import (
    database_url,
    postgres_server,
    postgres_url,
    sqlite_url,
)

__all__ = ["database_url", "postgres_server", "postgres_url", "sqlite_url"]
