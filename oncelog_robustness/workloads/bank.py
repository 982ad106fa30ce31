"""The workload `bank`: accounts on several partitions, and transfers between them, each a debit and a credit in one
transaction. It shows that money is neither made nor lost, whatever part of the transfers is committed."""

from collections import Counter

from pydantic import Field

from oncelog_robustness.history import Isolation, Partition
from oncelog_robustness.workload_facts import BankOpened, BankRead, booking_of, booking_value, note
from oncelog_robustness.workloads.applications import run_writer
from oncelog_robustness.workloads.contract import Lab, until_over
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Sends,
    Share,
    Watched,
)
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import (
    OpenTransaction,
    Planned,
    Transactor,
    until_committed,
)


class BankParameters(Watched):
    accounts: int = Field(default=8, ge=2, le=1_000)
    deposit: int = Field(default=100, ge=1, le=1_000_000)
    partitions: Partitions = 4
    tellers: ClientCount = 3
    transfers_max: Sends = 3
    """The most transfers in a transaction."""
    abort_share: Share = 0.2
    think_ms: Pause = 40


class Bank:
    def __init__(self, name: str, parameters: BankParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.topic = name
        self.accounts = [f"account-{number}" for number in range(parameters.accounts)]
        self.partitions = partitions_of(name, parameters.partitions)

    def home(self, account: int) -> Partition:
        """Return the partition of an account. Each account stays in one, so that a transfer mostly spans two."""
        return self.partitions[account % len(self.partitions)]

    async def setup(self, lab: Lab) -> None:
        given = self.parameters
        await make_topic(lab, self.topic, given.partitions)
        invoked_ms = lab.now_ms()

        async def deposit(client: Transactor, opened: OpenTransaction) -> None:
            await opened.send_all(
                [
                    Planned(self.home(number), booking_value(one, given.deposit, client.unique()))
                    for number, one in enumerate(self.accounts)
                ]
            )

        await until_committed(lab, f"{self.name}-setup", deposit)
        opened = BankOpened(
            topic=self.topic,
            partitions=given.partitions,
            total=given.deposit * given.accounts,
        )
        lab.record(note(opened, client=self.name, invoked_ms=invoked_ms, completed_ms=lab.now_ms()))

    async def start(self, lab: Lab) -> None:
        works = [self._teller(lab, number) for number in range(self.parameters.tellers)]
        works += watchers(lab, self.name, self.partitions, self.parameters)
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        invoked_ms = lab.now_ms()
        reads = await final_reads(lab, f"{self.name}-check", self.partitions, DECIDED_LIMIT_MS)
        stable = [one for one in reads if one.isolation is Isolation.READ_COMMITTED]
        high = [one for one in reads if one.isolation is Isolation.READ_UNCOMMITTED]
        balances: Counter[str] = Counter()
        for read in stable:
            for one in read.reads:
                booking = booking_of(one.value or "")
                if booking is not None:
                    balances[booking.account] += booking.amount
        is_consistent = all(one.is_complete for one in stable) and all(
            one.start_offset == 0 and one.end_offset == other.end_offset
            for one, other in zip(stable, high, strict=True)
        )
        sums = BankRead(
            topic=self.topic,
            balances=tuple(sorted(balances.items())),
            is_consistent=is_consistent,
        )
        lab.record(
            note(
                sums,
                client=f"{self.name}-check",
                invoked_ms=invoked_ms,
                completed_ms=lab.now_ms(),
            )
        )

    async def _teller(self, lab: Lab, number: int) -> None:
        given = self.parameters
        await run_writer(
            lab,
            f"{self.name}-teller-{number}",
            number,
            given,
            self._transfers,
            abort_share=given.abort_share,
            pause_ms=given.think_ms,
        )

    async def _transfers(self, client: Transactor, opened: OpenTransaction) -> None:
        draw = client.lab.random
        for _ in range(draw.randint(1, self.parameters.transfers_max)):
            payer, payee = draw.sample(range(len(self.accounts)), 2)
            amount = draw.randint(1, 20)
            debit = booking_value(self.accounts[payer], -amount, client.unique())
            credit = booking_value(self.accounts[payee], amount, client.unique())
            await opened.send_all(
                [Planned(self.home(payer), debit), Planned(self.home(payee), credit)]
            )
