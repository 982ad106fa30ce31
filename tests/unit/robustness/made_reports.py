"""Reports of `oncelog verify` about histories that are made here. Its own code judges them and puts them into words."""

from oncelog_robustness.chaos.measures import Tried
from oncelog_robustness.history import Ending, Fault
from oncelog_robustness.verify.judging import judged
from oncelog_robustness.verify.offline import measures_of
from oncelog_robustness.verify.report import About, content_of
from tests.unit.robustness.checkers.made_history import RU, MadeHistory


def sound():
    made = MadeHistory()
    made.history.facts = {"pulse": "w", "records deleted from": ""}
    made.txn("t-0@0 a", "t-1@0 b", asked_ms=5)
    made.txn("t-0@2 c", ending=Ending.ABORT)
    made.txn("t-0@4 d", "t-1@2 e", asked_ms=25)
    made.poll("t-0@0 a", "t-0@4 d")
    for isolation in (RU, "read_committed"):
        more = ("2 c",) if isolation is RU else ()
        made.final("t-0", "0 a", *more, "4 d", end=6, isolation=type(RU)(isolation))
        made.final("t-1", "0 b", "2 e", end=4, isolation=type(RU)(isolation))
    return made


def lossy():
    made = sound()
    made.txn("t-0@7 gone", "t-1@5 <there>", asked_ms=made.now_ms + 5)
    made.final("t-0", "0 a", "4 d", end=9)
    made.final("t-1", "0 b", "2 e", "5 <there>", end=7)
    return made


def report_of(made, **more):
    judgement, measures = judged(made.history), measures_of(made.history)
    about = About("Kafka at x:1", "abc123", ("aiokafka",), ("one limit",), "again", **more)
    return content_of(judgement, Tried.of(made.history), measures, about), measures


def struck(made, kind, target, began_ms, ended_ms, facts=""):
    made.history.add(
        Fault(
            client="fault-plan",
            invoked_ms=began_ms,
            completed_ms=ended_ms,
            kind=kind,
            target=target,
            facts=facts,
        )
    )


def stormy(made):
    """A minute more: a commit every 100 ms but for three times, each in a fault of brokers."""
    away = (range(10_000, 13_000), range(20_000, 20_400), range(33_000, 35_500))
    for at_ms in range(1_000, 60_000, 100):
        if not any(at_ms in one for one in away):
            library = "java" if at_ms % 200 else "aiokafka"
            made.txn(at=(at_ms, at_ms + 15), asked_ms=at_ms + 10, library=library)
    struck(made, "kill", "broker-1", 9_990, 12_000, "SIGKILL to 71 of /srv/run/kafka-1.pid")
    struck(made, "pause", "broker-1", 19_990, 20_300, "SIGSTOP to 72 of /srv/run/kafka-1.pid")
    struck(made, "rolling-restart", "broker", 30_020, 36_000, "SIGTERM to 72 of kafka-1.pid")
    struck(made, "client-kill", "clients", 50_000, 50_000, "w#1")
    return made
