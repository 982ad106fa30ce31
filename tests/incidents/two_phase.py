"""Producers of two-phase transactions that die between `prepare()` and their decision (KIP-939)."""

from contextlib import contextmanager

import pytest
from tests.targets import open_target

from oncelog.client.blocking import Admin, Producer


@contextmanager
def two_phase_target(folder):
    """A log on which producers may do without a time-out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ONCELOG_COORDINATOR_TWO_PHASE_COMMIT_ENABLED", "true")
        with open_target(folder) as running:
            with Admin(running.bootstrap) as admin:
                admin.update_features({"two.phase.commit.version": 1}, allows_data_loss=True)
            yield running


def two_phase_producer(bootstrap, name):
    return Producer(bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True)


def leave_prepared(bootstrap, name, topic, *values):
    """The text that its application would store."""
    with two_phase_producer(bootstrap, name) as producer:
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value, partition=0)
        return str(producer.prepare_transaction())


def keep_and_die(bootstrap, name):
    """The next producer finds it, and ends as well before it decides: the text that it found."""
    with two_phase_producer(bootstrap, name) as producer:
        return str(producer.prepared)
