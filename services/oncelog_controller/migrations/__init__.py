"""Alembic migrations of the controller's database. `oncelog_controller.database` runs them when they are due."""
