"""The entry for Alembic, which migrates the connection that the caller put into the configuration.

By hand, for a look at what would run: `alembic upgrade head --sql` is not offered; the controller migrates at start.
"""

from alembic import context

from oncelog_controller.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
