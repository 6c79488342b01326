"""Runs the migrations on the connection that the pool passes in; it cannot be called otherwise."""

from alembic import context

from upturn.pool.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transaction_per_migration=True
)
with context.begin_transaction():
    context.run_migrations()
