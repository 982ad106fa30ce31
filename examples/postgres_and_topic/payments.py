"""Payments booked in Postgres and in a topic: in both or in neither, without an outbox.

    python payments.py postgresql://localhost/bank localhost:9092 payments.csv

A line of the file is `id,account,amount`, and ids go up. After any crash start it again: it goes on where it stopped.
"""

import asyncio
import csv
import sys
from collections.abc import Iterable

from psycopg import AsyncConnection

from oncelog.client import Producer

NAME = "payments"
TABLES = """
    CREATE TABLE IF NOT EXISTS payment (id bigint PRIMARY KEY, account text, amount bigint);
    CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, balance bigint);
    CREATE TABLE IF NOT EXISTS prepared (name text PRIMARY KEY, generation bigint, stored text);
"""
TAKE_OVER = """
    INSERT INTO prepared VALUES (%s, 1, '')
    ON CONFLICT (name) DO UPDATE SET generation = prepared.generation + 1 RETURNING generation, stored
"""
STORE = "UPDATE prepared SET stored = %s WHERE name = %s AND generation = %s"
PAY = "INSERT INTO payment VALUES (%s, %s, %s)"
BALANCE = """
    INSERT INTO account VALUES (%s, %s)
    ON CONFLICT (name) DO UPDATE SET balance = account.balance + excluded.balance
"""


async def take_over(database: AsyncConnection, producer: Producer) -> int:
    """Fence the process before this one in the database. Then end what it left in the log as the database says."""
    row = await (await database.execute(TAKE_OVER, [NAME])).fetchone()
    assert row is not None
    await producer.complete_transaction(row[1])
    return int(row[0])


async def book(
    database: AsyncConnection, producer: Producer, generation: int, payment: list[str]
) -> None:
    async with producer.transaction() as transaction:
        transaction.send("payments", ",".join(payment), key=payment[1])
        prepared = await transaction.prepare()
        async with database.transaction():
            mine = await database.execute(STORE, [str(prepared), NAME, generation])
            if mine.rowcount != 1:
                raise SystemExit("another process has taken over")
            await database.execute(PAY, payment)
            await database.execute(BALANCE, payment[1:])


async def main(url: str, bootstrap: str, payments: Iterable[list[str]]) -> None:
    # A process that freezes within a transaction of the database would hold the row that the next one needs.
    database = await AsyncConnection.connect(
        url, autocommit=True, options="-c idle_in_transaction_session_timeout=5s"
    )
    producer = Producer(bootstrap, transactional_id=NAME, transaction_two_phase_commit_enable=True)
    async with database, producer:
        await database.execute(TABLES)
        generation = await take_over(database, producer)
        row = await (await database.execute("SELECT coalesce(max(id), 0) FROM payment")).fetchone()
        assert row is not None
        for payment in payments:
            if int(payment[0]) > row[0]:
                await book(database, producer, generation, payment)


if __name__ == "__main__":
    with open(sys.argv[3], newline="") as file:
        asyncio.run(main(sys.argv[1], sys.argv[2], csv.reader(file)))
