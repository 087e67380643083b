"""Runs migrations on the engine that the caller hands in."""

from alembic import context

from agent.store.tables import metadata

with context.config.attributes["engine"].connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
