"""The results: one SQLite file with one writer, in which every finished run is one row."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mimogc.runs import export, rows
from mimogc.runs.run import Record

if TYPE_CHECKING:
    import pandas

DEFAULT = Path("results/runs.db")  # where the command line keeps results
APPLICATION_ID = 0x4D494D4F  # "MIMO": tells our file from any other SQLite file
# 1: in the studies of rows.CHANGED "lmgc" was what is "eq12" now; 2: there a variant had its options appended.
FORMAT = 3

# Rollback journal, not WAL: a commit is one small transaction per batch, so a reader waits milliseconds, and
# the file is whole by itself and works on the shared file systems of clusters, where WAL does not.
WRITER = "PRAGMA busy_timeout = 30000; PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;"
READER = "PRAGMA busy_timeout = 30000; PRAGMA query_only = 1;"
COLUMNS = """
    id TEXT NOT NULL PRIMARY KEY, study TEXT NOT NULL, dataset TEXT NOT NULL, method TEXT NOT NULL,
    variant TEXT NOT NULL, hparams TEXT NOT NULL, split INTEGER NOT NULL, seed INTEGER NOT NULL,
    environment TEXT NOT NULL, finished_at TEXT NOT NULL"""
STUDIES = "CREATE TABLE IF NOT EXISTS studies (name TEXT NOT NULL PRIMARY KEY, reference TEXT NOT NULL)"
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE runs ({COLUMNS}, status TEXT NOT NULL CHECK (status IN ('done', 'diverged')),
    metrics TEXT NOT NULL, curves TEXT NOT NULL, seconds REAL NOT NULL);
CREATE TABLE failures ({COLUMNS}, error TEXT NOT NULL);
{STUDIES};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class StoreError(RuntimeError):
    """The store cannot be read or written; the message is one line and names the file."""


class Store:
    """The results in ``path``: for reading, or with ``write=True`` as the only writer.

    The writer creates the file where it is missing, and holds an operating-system lock on ``path + ".lock"``
    that ends with the process, however it ends. Readers need no lock and can read while the writer writes.
    """

    def __init__(self, path: str | Path, write: bool = False) -> None:
        self.path = Path(path)
        self._lock: IO[str] | None = None
        self._db: sqlite3.Connection | None = None
        self._format = FORMAT  # of the file
        try:
            if write:
                self._lock = _lock(self.path)
            elif not self.path.is_file():
                raise StoreError(f"no results: there is no file {self.path}")
            with self._one_line_errors("open"):
                self._open(write)
        except BaseException:
            self.close()
            raise

    def _open(self, write: bool) -> None:
        # Readers open read-write too: the first to come after a kill -9 rolls the half-written batch back.
        uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
        self._db = db = sqlite3.connect(uri, uri=True, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.executescript(WRITER if write else READER)
        application, version, tables = db.execute(
            "SELECT * FROM pragma_application_id, pragma_user_version, (SELECT count(*) FROM sqlite_master)"
        ).fetchone()
        if tables and application != APPLICATION_ID:
            raise StoreError(f"{self.path} is an SQLite file of another program, not a store of results")
        if tables and version not in range(1, FORMAT + 1):
            raise StoreError(f"{self.path} has format {version}; this version of mimogc knows format {FORMAT}")
        if tables and version < FORMAT:
            self._format = version
            if write:
                self._migrate()
        if write and not tables:
            db.executescript(SCHEMA)

    def _migrate(self) -> None:
        """Bring a file of an older format to this one; a kill leaves the one or the other."""
        with self._transaction() as db:
            for table in ("runs", "failures"):
                for row in db.execute(f"SELECT * FROM {table}").fetchall():
                    with self._naming(row):
                        run = rows.run_of(row, self._format)
                    if row["id"] != run.id:
                        values = (run.id, run.method, run.variant, row["id"])
                        db.execute(f"UPDATE {table} SET id = ?, method = ?, variant = ? WHERE id = ?", values)
            db.execute(STUDIES)
            db.execute(f"PRAGMA user_version = {FORMAT}")
        self._format = FORMAT

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def records(self, study: str | None = None) -> list[Record]:
        """The finished runs, done or diverged, in the order they were finished."""
        return self._records("runs", study)

    def failures(self, study: str | None = None) -> list[Record]:
        """The runs that failed when they were last tried; they are tried again next time."""
        return self._records("failures", study)

    def studies(self) -> list[str]:
        """The names of the studies that have finished runs here."""
        return sorted({row["study"] for row in self._rows("runs", columns="DISTINCT study")})

    def frame(self, study: str | None = None, curves: bool = False) -> "pandas.DataFrame":
        """The finished runs as a pandas frame, a row for each; pandas is needed only here.

        Columns are ``id``, ``study``, ``dataset``, ``method``, ``variant``, ``split``, ``seed``, ``status``,
        ``selected``, ``seconds``, ``finished_at``, then ``hparams.NAME`` and ``metrics.NAME``. ``selected`` is true for
        the runs that the study's own selection counts for its table; it is missing where the study cannot be loaded,
        as one of one's own in a module that is not here.

        Args:
            study: only the runs of this study.
            curves: a row per point of each run's curves instead.
        """
        return export.frame(export.table(self, study, curves), curves)

    def add(self, records: Iterable[Record]) -> None:
        """Write records in one transaction: after a kill either all of them are there or none is.

        A finished run that is already here is refused, and then nothing is written.
        """
        with self._one_line_errors("write"), self._transaction() as db:
            for record in records:
                row = rows.to_row(record)
                db.execute("DELETE FROM failures WHERE id = ?", (row["id"],))
                table = "failures" if record.status == "failed" else "runs"
                if table == "runs" and db.execute("SELECT 1 FROM runs WHERE id = ?", (row["id"],)).fetchone():
                    run = f"{row['id']} ({record.run.label()})"
                    raise StoreError(f"cannot write the store {self.path}: it already has the run {run}")
                names = ", ".join(row)
                db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))

    def remember(self, study: str, reference: str) -> None:
        """Keep where a study was loaded from, as ``module:object``."""
        with self._one_line_errors("write"), self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO studies VALUES (?, ?)", (study, reference))

    def references(self) -> dict[str, str]:
        """Where the studies whose runs are here were loaded from."""
        return {row["name"]: row["reference"] for row in self._rows("studies")}

    def _records(self, table: str, study: str | None) -> list[Record]:
        found = []
        for row in self._rows(table, " WHERE ? IN (study, '') ORDER BY finished_at, rowid", study or ""):
            with self._naming(row):
                found.append(rows.record_of(row, self._format))
        return found

    def _rows(self, table: str, condition: str = "", *values: str, columns: str = "*") -> list[sqlite3.Row]:
        assert self._db is not None
        with self._one_line_errors("read"):
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                return []  # an old file, or an empty one: its writer was killed before the first transaction
            return self._db.execute(f"SELECT {columns} FROM {table}{condition}", values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        assert self._db is not None
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has already rolled back by itself
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _naming(self, row: sqlite3.Row) -> Iterator[None]:
        """An error in what a row has names the file and the run."""
        try:
            yield
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            raise StoreError(f"cannot read the store {self.path}: run {row['id']} is damaged: {error}") from error

    @contextmanager
    def _one_line_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"cannot {doing} the store {self.path}: {error}") from error


def _lock(path: Path) -> IO[str]:
    """Lock ``path`` for this process, or say who holds it."""
    import fcntl  # where it does not exist (Windows) results can still be read

    side = path.with_name(path.name + ".lock")
    try:
        file = side.open("a+")
    except OSError as error:
        raise StoreError(f"cannot write the store {path}: {error.strerror} ({error.filename})") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise StoreError(
            f"another run (process {holder}) is writing {path}; wait for it or choose another store"
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
