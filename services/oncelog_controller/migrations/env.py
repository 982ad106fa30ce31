"""The entry for Alembic, which migrates the connection that the caller put into the configuration.

A controller migrates its database when it starts. `alembic upgrade head --sql`, which would only print the SQL, does
not work with this file.
"""

from alembic import context

from oncelog_controller.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
