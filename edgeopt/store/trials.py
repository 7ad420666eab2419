"""`TrialStore`: every study and every trial, safe against a kill at any moment.

SQLite with a write-ahead log and `synchronous=FULL`: an added trial is on the disk when `add`
returns, also when the power fails right after. The few milliseconds of the sync are nothing
beside the seconds that a measurement takes. `NORMAL` would be safe against a kill, yet could
forget the last trials of a board or laptop that loses power.
"""

import difflib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
import sqlalchemy.exc
from sqlalchemy import event

from edgeopt.core.closing import Closing
from edgeopt.core.codec import decode, encode
from edgeopt.core.measurement import Failure
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import StorageError, UsageError
from edgeopt.store import faults, schema
from edgeopt.store.claim import Claim

T = TypeVar("T", Study, Trial)
FILE = "trials.sqlite"
_BUSY_S = 30
"""How long a statement waits for another process's transaction, which takes milliseconds."""


class TrialStore(Closing):
    """Studies and their trials in one database.

    Reading needs no right; the first `save_study` or `add` claims the study for this store until
    `close`, so that two runs never number trials of one study at the same time.

    Args:
        engine: The database, its tables created.
        path: Where it lies, for messages and for the lock files beside it.
    """

    def __init__(self, engine: sa.Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._claims: dict[str, Claim] = {}

    @staticmethod
    def open(folder: Path) -> "TrialStore":
        """The store in a folder, as `trials.sqlite`; both are created where missing.

        Raises:
            StorageError: The folder is read-only, the disk full, the file damaged, or written
                by a newer edgeopt.
        """
        path = folder / FILE
        with faults.translated(path):
            folder.mkdir(parents=True, exist_ok=True)
            engine = _engine(path)
            try:
                _prepare(engine, path)
            except (StorageError, sqlalchemy.exc.DBAPIError, sqlite3.Error):
                engine.dispose()
                raise
        return TrialStore(engine, path)

    def close(self) -> None:
        """Give back the claims and the connection. Closing twice is allowed."""
        for claim in self._claims.values():
            claim.release()
        self._claims.clear()
        self._engine.dispose()

    def claim(self, study_id: str) -> None:
        """Become the one process that works on the study; again is allowed.

        Raises:
            StorageError: Another process does; the message names it.
        """
        if study_id not in self._claims:
            self._claims[study_id] = Claim(self._path.parent / "locks" / f"{study_id}.lock")

    def save_study(self, study: Study) -> None:
        """Keep a study, or mark a known one as the latest; claims it.

        Raises:
            StorageError: Another process works on it, or the store cannot be written.
        """
        self.claim(study.id)
        row = {"touched_s": time.time(), "document": _dump(study)}
        same = schema.study.c.id == study.id
        with faults.translated(self._path), self._engine.begin() as connection:
            changed = connection.execute(sa.update(schema.study).where(same).values(row))
            if not changed.rowcount:
                connection.execute(sa.insert(schema.study).values(id=study.id, **row))

    def studies(self) -> tuple[Study, ...]:
        """All studies, the one that was worked on last at the end."""
        query = sa.select(schema.study.c.document).order_by(schema.study.c.touched_s)
        return tuple(self._decoded(Study, text) for text in self._column(query))

    def study(self, id_or_prefix: str) -> Study:
        """The study of that id, or whose id alone begins so.

        Raises:
            UsageError: None or several; the message offers the nearest ids.
        """
        known = {study.id: study for study in self.studies()}
        if id_or_prefix in known:
            return known[id_or_prefix]
        found = [name for name in known if name.startswith(id_or_prefix)]
        if len(found) == 1:
            return known[found[0]]
        if found:
            raise UsageError(
                f"{id_or_prefix!r} could be any of {len(found)} studies",
                where=str(self._path),
                hint=f"say which: {', '.join(found)}",
            )
        near = difflib.get_close_matches(id_or_prefix, known, n=1, cutoff=0.4)
        listing = f"there are: {', '.join(known)}" if known else "begin one with `edgeopt run`"
        raise UsageError(
            f"there is no study {id_or_prefix!r}",
            where=str(self._path),
            hint=(f"did you mean {near[0]!r}? " if near else "") + listing,
        )

    def add(self, study_id: str, trial: Trial) -> None:
        """Keep a trial; it is on the disk when this returns. Claims the study.

        Raises:
            StorageError: The number is taken, another process works on the study, or the store
                cannot be written.
        """
        self.claim(study_id)
        row = {
            "study": study_id,
            "number": trial.number,
            "key": trial.candidate.key,
            "device": trial.device,
            "protocol": trial.protocol,
            "strategy": trial.strategy,
            "status": _status(trial),
            "document": _dump(trial),
        }
        try:
            with faults.translated(self._path), self._engine.begin() as connection:
                connection.execute(sa.insert(schema.trial).values(row))
        except StorageError as error:
            if isinstance(error.__cause__, sqlalchemy.exc.IntegrityError):
                raise StorageError(
                    f"trial {trial.number} of {study_id} is already stored",
                    where=str(self._path),
                    hint="take the number from next_number",
                ) from error
            raise

    def trials(self, study_id: str) -> tuple[Trial, ...]:
        """All trials of a study, in order of their number; none for an unknown study."""
        query = sa.select(schema.trial.c.document).where(schema.trial.c.study == study_id)
        found = self._column(query.order_by(schema.trial.c.number))
        return tuple(self._decoded(Trial, text) for text in found)

    def find(self, study_id: str, candidate_key: str, device: str, protocol: str) -> Trial | None:
        """What is already known about a candidate: its latest trial, failures included."""
        table = schema.trial.c
        query = sa.select(table.document).where(
            table.study == study_id,
            table.key == candidate_key,
            table.device == device,
            table.protocol == protocol,
        )
        found = self._column(query.order_by(table.number.desc()).limit(1))
        return self._decoded(Trial, found[0]) if found else None

    def next_number(self, study_id: str) -> int:
        """The number after the highest one stored; 0 in a new study."""
        query = sa.select(sa.func.max(schema.trial.c.number))
        highest = self._column(query.where(schema.trial.c.study == study_id))[0]
        return 0 if highest is None else int(highest) + 1

    def forget(self, study_id: str) -> None:
        """Delete every trial of a study (`--fresh`); the study itself stays. Claims it.

        Raises:
            StorageError: Another process works on it, or the store cannot be written.
        """
        self.claim(study_id)
        with faults.translated(self._path), self._engine.begin() as connection:
            connection.execute(sa.delete(schema.trial).where(schema.trial.c.study == study_id))

    def _column(self, query: sa.Select[Any]) -> list[Any]:
        with faults.translated(self._path), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def _decoded(self, cls: type[T], text: str) -> T:
        try:
            return decode(cls, json.loads(text))
        except (ValueError, TypeError) as error:
            raise faults.damaged(self._path, f"a {cls.__name__} in it: {error}") from error


def _dump(value: Study | Trial) -> str:
    return json.dumps(encode(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _status(trial: Trial) -> str:
    outcome = trial.outcome
    return "failed" if isinstance(outcome, Failure) else outcome.verdict.status


def _engine(path: Path) -> sa.Engine:
    url = sa.URL.create("sqlite", database=str(path.absolute()))
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_S})
    event.listen(engine, "connect", _pragmas)  # pyright: ignore[reportUnknownMemberType]
    return engine


def _pragmas(connection: sqlite3.Connection, record: object) -> None:
    del record
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _prepare(engine: sa.Engine, path: Path) -> None:
    """Refuse a newer or damaged store, then create what is missing."""
    if sa.inspect(engine).has_table(schema.meta.name):
        _check_version(engine, path)
    # One statement at a time and "if not exists": a kill between two, or a second process doing
    # the same, leaves nothing that the next opening could not finish.
    with engine.begin() as connection:
        for table in schema.metadata.sorted_tables:
            connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(sa.schema.CreateIndex(index, if_not_exists=True))
    version = {"key": "schema_version", "value": str(schema.SCHEMA_VERSION)}
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(schema.meta).values(version))
    except sqlalchemy.exc.IntegrityError:
        _check_version(engine, path)


def _check_version(engine: sa.Engine, path: Path) -> None:
    query = sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema_version")
    with engine.connect() as connection:
        text = connection.execute(query).scalar()
    if text is None:
        return
    if not str(text).isdigit():
        raise faults.damaged(path, f"its schema version reads {text!r}")
    if int(text) > schema.SCHEMA_VERSION:
        raise StorageError(
            f"the store has schema version {text}, this edgeopt knows {schema.SCHEMA_VERSION}",
            where=str(path),
            hint="upgrade edgeopt, or choose another folder with --out",
        )
