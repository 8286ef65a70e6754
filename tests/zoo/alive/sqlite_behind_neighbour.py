"""Waits in sqlite, which asks again and again for up to a minute, for a database that a living neighbour has locked."""

import pathlib
import sqlite3
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour

with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/runs.db"
    sqlite3.connect(path).execute("create table runs (name)").connection.commit()

    def migrate(begun):
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("begin exclusive")
        begun()
        neighbour.be_busy()
        database.execute("commit")

    neighbour.start(migrate)
    database = sqlite3.connect(path, timeout=60)
    database.execute("insert into runs values ('mine')")
    database.commit()
    database.close()
print("alive")
