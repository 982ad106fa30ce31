"""The same with SQLite, for a laptop.

python payments_sqlite.py bank.db localhost:9092 payments.csv
"""

import asyncio
import csv
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing

from oncelog.client import Producer

NAME = "payments"
TABLES = """
    CREATE TABLE IF NOT EXISTS payment (id integer PRIMARY KEY, account text, amount integer);
    CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, balance integer);
    CREATE TABLE IF NOT EXISTS prepared (name text PRIMARY KEY, generation integer, stored text);
"""
TAKE_OVER = """
    INSERT INTO prepared VALUES (?, 1, '')
    ON CONFLICT (name) DO UPDATE SET generation = prepared.generation + 1 RETURNING generation, stored
"""
STORE = "UPDATE prepared SET stored = ? WHERE name = ? AND generation = ?"
PAY = "INSERT INTO payment VALUES (?, ?, ?)"
BALANCE = """
    INSERT INTO account VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET balance = account.balance + excluded.balance
"""


async def take_over(database: sqlite3.Connection, producer: Producer) -> int:
    """Fence the process before this one in the database. Then end what it left in the log as the database says."""
    with database:
        generation, stored = database.execute(TAKE_OVER, [NAME]).fetchone()
    await producer.complete_transaction(stored)
    return int(generation)


async def book(
    database: sqlite3.Connection, producer: Producer, generation: int, payment: list[str]
) -> None:
    async with producer.transaction() as transaction:
        transaction.send("payments", ",".join(payment), key=payment[1])
        prepared = await transaction.prepare()
        with database:  # Commits at its end.
            mine = database.execute(STORE, [str(prepared), NAME, generation])
            if mine.rowcount != 1:
                raise SystemExit("another process has taken over")
            database.execute(PAY, payment)
            database.execute(BALANCE, payment[1:])


async def main(path: str, bootstrap: str, payments: Iterable[list[str]]) -> None:
    producer = Producer(bootstrap, transactional_id=NAME, transaction_two_phase_commit_enable=True)
    with closing(sqlite3.connect(path, timeout=10)) as database:
        async with producer:
            database.executescript(TABLES)
            generation = await take_over(database, producer)
            (last,) = database.execute("SELECT coalesce(max(id), 0) FROM payment").fetchone()
            for payment in payments:
                if int(payment[0]) > last:
                    await book(database, producer, generation, payment)


if __name__ == "__main__":
    with open(sys.argv[3], newline="") as file:
        asyncio.run(main(sys.argv[1], sys.argv[2], csv.reader(file)))
