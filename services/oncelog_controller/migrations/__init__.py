"""Alembic migrations of the controller's database; run by `oncelog_controller.database` when they are due."""
