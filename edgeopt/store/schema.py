"""The tables, in types that SQLite and PostgreSQL share, and their version.

A trial is stored whole, as the JSON that `core.codec` writes; the columns beside it are copies
for look-up only. Samples of a trial take some ten kilobytes, so there is nothing to keep outside.
"""

import sqlalchemy as sa

SCHEMA_VERSION = 1
"""Raised when a table changes; a store with a higher one is refused, never guessed at."""

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(64), nullable=False),
)

study = sa.Table(
    "study",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("touched_s", sa.Float(53), nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)

trial = sa.Table(
    "trial",
    metadata,
    sa.Column("study", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(80), nullable=False),
    sa.Column("device", sa.String(255), nullable=False),
    sa.Column("protocol", sa.String(64), nullable=False),
    sa.Column("strategy", sa.String(64), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Index("trial_measured_once", "study", "key", "device", "protocol"),
)
