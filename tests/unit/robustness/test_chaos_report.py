"""Measures and reports of a canned history: numbers a person can check by hand, and a page that stands alone."""

import io
import json
import re
from html.parser import HTMLParser

import pytest
from oncelog_robustness.chaos.measures import FAULT_PLAN, Lag, measure, percentile
from oncelog_robustness.chaos.page.build import build_page
from oncelog_robustness.chaos.page.svg import SECONDS, Scale, nice_step, tag
from oncelog_robustness.chaos.report import report_content, report_lines, write_report
from oncelog_robustness.chaos.run import RunOptions, RunResult, came_back, recovers_in, roles_hit
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import Ending, Fault, History, Outcome, Send, Transaction
from oncelog_robustness.scenario import Scenario
from rich.console import Console

FROM_MS, UNTIL_MS = 1_000, 31_000
ROLES = ("storage", "listener", "redis")
PROOF = "value <b>x|y</b> of pulse#1 is gone"


def committed(client, began_ms, asked_ms, ended_ms, outcome=Outcome.OK):
    return Transaction(
        client=client,
        invoked_ms=began_ms,
        completed_ms=ended_ms,
        transactional_id="pulse",
        protocol="TV1",
        ending=Ending.COMMIT,
        outcome=outcome,
        sends=(Send("t", 0, f"{client}/{began_ms}", 0),),
        asked_ms=asked_ms,
    )


def fault(kind, target, began_ms, ended_ms, client=FAULT_PLAN):
    return Fault(
        client=client, invoked_ms=began_ms, completed_ms=ended_ms, kind=kind, target=target
    )


def canned():
    """A commit every 100 ms, but for ten seconds from 10 s on, and none of the last two seconds."""
    history = History(facts={"seed": "7"})
    for at in range(FROM_MS, UNTIL_MS - 2_000, 100):
        if not 10_000 <= at < 20_000:
            history.add(committed("pulse#1", at, at + 10, at + 15))
    history.add(committed("pulse#2", 15_000, 15_010, 15_020, Outcome.INFO))
    history.add(committed("other#1", 15_000, 15_010, 15_020))
    history.add(fault("kill", "storage-1", 9_990, 12_000))
    history.add(fault("partition", "listener-1", 21_050, 22_000))
    history.add(fault("kill", "storage-2", 30_000, 30_500))
    history.add(fault("client-kill", "pulse#1", 15_000, 15_000, client="workload"))
    return history


@pytest.fixture
def measures():
    lags = [Lag(2_000, 0, "t-0"), Lag(3_000, 17, "t-1"), Lag(20_000, 3, "t-1")]
    return measure(canned(), "pulse", FROM_MS, UNTIL_MS, ROLES, lags)


@pytest.fixture
def result(measures, tmp_path):
    scenario = Scenario(name="canned", duration_ms=30_000, workloads=({"kind": "steady"},))
    options = RunOptions(tmp_path, 7, 30_000, scenario, ("aiokafka",), 'make chaos ARGS="x"')
    verdicts = (
        Verdict("lost-write", Answer.BROKEN, 5, (PROOF,) * 30),
        Verdict("duplicate", Answer.OK, 1_234),
        Verdict("bank", Answer.UNKNOWN, 0, ("no bank was opened",)),
    )
    return RunResult(options, "a canned log", canned(), (), verdicts, measures, 33.0)


def test_commits_are_those_of_the_pulse_that_were_acknowledged(measures):
    assert len(measures.commits) == 180
    assert {one.latency_ms for one in measures.commits} == {5}


def test_gaps_are_a_second_or_more_without_a_commit(measures):
    assert measures.gaps == ((9_915, 20_015), (28_915, 31_000))
    assert measures.availability == pytest.approx(1 - 12.185 / 30)


def test_recovery_ends_with_the_next_transaction_begun_later(measures):
    assert [one.ms for one in measures.recoveries] == [20_015 - 9_990, 21_115 - 21_050, None]


def test_the_longest_gap_of_a_fault_ends_with_a_commit_after_it(measures):
    assert [one.gap_ms for one in measures.recoveries] == [20_015 - 9_990, 100, None]


def test_a_gap_in_which_the_client_was_away_does_not_count():
    history = History()
    for at in range(FROM_MS, UNTIL_MS, 100):
        if not 10_000 <= at < 20_000:
            history.add(committed("pulse#1" if at < 10_000 else "pulse#2", at, at + 10, at + 15))
    history.add(fault("rolling-restart", "storage", 5_000, 25_000))
    history.add(fault("client-kill", "clients", 9_990, 9_995))
    rolling, death = measure(history, "pulse", FROM_MS, UNTIL_MS, ROLES, []).recoveries
    assert rolling.gap_ms == 100
    assert death.gap_ms is None


def test_roles_are_summed_up(measures):
    storage, listener, redis = measures.roles
    assert (storage.hits, storage.recoveries, storage.p50_ms, storage.max_ms) == (
        2,
        1,
        10_025,
        10_025,
    )
    assert (listener.hits, listener.p50_ms) == (1, 65)
    assert (redis.hits, redis.p50_ms, redis.max_ms) == (0, None, None)


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [([], 0.5, None), ([3], 0.99, 3), ([4, 1, 3, 2], 0.5, 2), (list(range(1, 101)), 0.99, 99)],
)
def test_percentile(values, share, found):
    assert percentile(values, share) == found


def test_a_spared_role_is_not_shown_as_tested(measures):
    verdict = roles_hit(measures, 30_000)
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.proof == ("redis was hit 0 times, 1 were wanted",)
    assert roles_hit(measures, 600_000).proof[0].startswith("storage was hit 2 times, 19")


def test_recoveries_from_kills_are_held_against_a_bar(measures):
    storage, listener, _ = measures.roles
    assert (storage.kills, storage.kills_p99_ms, storage.p99_ms) == (1, 10_025, 10_025)
    assert (listener.kills, listener.kills_p99_ms, listener.p99_ms) == (0, None, 65)
    late = recovers_in(measures, 5_000)
    assert late.answer is Answer.BROKEN
    assert late.proof == ("storage: p99 of 1 kills is 10025 ms, the bar is 5000 ms",)
    assert recovers_in(measures, 11_000).answer is Answer.OK
    nothing = measure(History(), "pulse", 0, 0, ROLES, [])
    assert recovers_in(nothing, 5_000).answer is Answer.UNKNOWN


def with_kill_and(other):
    """The kill of storage-1 from 9,990 to 12,000 ms, which the commits notice until 20,015."""
    history = canned()
    history.add(other)
    storage, *_ = measure(history, "pulse", FROM_MS, UNTIL_MS, ROLES, []).roles
    return storage.kills


def test_a_kill_beside_a_lasting_fault_is_not_held_to_the_bar():
    assert with_kill_and(fault("partition", "coordinator-1", 5_000, 11_000)) == 0
    assert with_kill_and(fault("pause", "coordinator-1", 15_000, 16_000)) == 0
    assert with_kill_and(fault("database-outage", "postgres", 5_000, None)) == 0
    # Over before, begun after, or itself a process that is soon back.
    assert with_kill_and(fault("partition", "coordinator-1", 5_000, 9_000)) == 1
    assert with_kill_and(fault("partition", "coordinator-1", 20_100, 21_000)) == 1
    assert with_kill_and(fault("kill", "listener-1", 9_995, 11_000)) == 1


def test_a_kill_while_the_client_is_away_is_not_held_to_the_bar():
    """The commits from 20 s on are of the client's next process."""
    history = History()
    for at in range(FROM_MS, UNTIL_MS - 2_000, 100):
        if not 10_000 <= at < 20_000:
            history.add(committed("pulse#1" if at < 10_000 else "pulse#2", at, at + 10, at + 15))
    history.add(fault("kill", "storage-1", 12_000, 13_000))
    history.add(fault("kill", "storage-1", 25_000, 26_000))

    def storage():
        return measure(history, "pulse", FROM_MS, UNTIL_MS, ROLES, []).roles[0]

    # A client that ended by itself is the cluster's fault.
    assert (storage().kills, storage().kills_p99_ms) == (2, 8_015)
    history.add(fault("client-kill", "clients", 9_990, 9_995))
    assert storage().kills == 1
    # Another client was meant: this one goes on.
    history.add(fault("client-kill", "clients", 24_000, 24_001))
    assert storage().kills == 1


def test_what_could_not_be_done_is_told_in_all_three_reports(result):
    limits = ("no disk-full here: <b>the volume</b> is too large",)
    limited = RunResult(**{**fields(result), "limits": limits})
    content = report_content(limited)
    assert content["limits"] == list(limits)
    assert f"- {limits[0]}" in list(report_lines(content))
    assert "no disk-full here: &lt;b&gt;the volume" in build_page(content, limited.measures)


def test_a_process_that_did_not_come_back_is_broken():
    assert came_back([], 9).answer is Answer.OK
    assert came_back([], 0).answer is Answer.UNKNOWN
    assert came_back(["storage-1 ended by itself"], 9).answer is Answer.BROKEN


def test_json_tells_all(result):
    content = json.loads(json.dumps(report_content(result)))
    assert not content["is_sound"]
    assert content["faults"] == {
        "planned": 3,
        "by_workloads": 1,
        "by_kind": {"kill": 2, "partition": 1},
    }
    assert content["operations"] == {"Fault": 4, "Transaction": 182}
    assert content["transactions"] == {"commit info": 1, "commit ok": 181}
    assert content["pulse"]["commit_p99_ms"] == 5
    assert content["lso_lag_max"] == 17
    assert content["never_reached"]["checkers"] == ["bank"]
    assert content["never_reached"]["roles"] == ["redis"]
    assert "ghost" in content["never_reached"]["faults"]
    assert "kill" not in content["never_reached"]["faults"]
    assert content["verdicts"][0]["proofs"] == 30


def test_markdown_names_what_is_broken_first(result):
    lines = list(report_lines(report_content(result)))
    assert lines[0] == "# Chaos: broken: lost-write"
    assert "| storage | 2 | 10.03 s | 10.03 s | 10.03 s | 1 | 10.03 s |" in lines
    rows = [line for line in lines if line.startswith("| lost-write")]
    assert rows[0].count("x\\|y") == 20


def test_prose_in_markdown_is_no_wider_than_a_page(result):
    result.options.scenario.__dict__["name"] = "of a long name " * 20
    lines = list(report_lines(report_content(result)))
    prose = [line for line in lines if not line.startswith("|")]
    assert max(map(len, prose)) <= 100
    assert '    make chaos ARGS="x"' in lines
    never = " ".join(line.strip() for line in lines[lines.index("## Never reached") :])
    assert "- faults: " in never
    assert "- checkers: bank" in never
    assert "partition-one-way" in never


def test_soundness_is_the_title(result):
    sound = RunResult(**{**fields(result), "verdicts": result.verdicts[1:]})
    assert sound.is_sound
    assert next(report_lines(report_content(sound))) == "# Chaos: nothing is broken"
    assert "Nothing is broken" in build_page(report_content(sound), sound.measures)


def fields(result):
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


class Page(HTMLParser):
    """Every tag closed, every address our own."""

    VOID = ("meta", "br", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tips: list[str] = []
        self.addresses: list[str] = []
        self.classes: dict[str, int] = {}

    def handle_starttag(self, name, attributes):
        found = dict(attributes)
        self.addresses += [found[key] for key in ("src", "href", "xlink:href") if key in found]
        if "data-tip" in found:
            self.tips.append(found["data-tip"])
        for one in (found.get("class") or "").split():
            self.classes[one] = self.classes.get(one, 0) + 1
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def test_the_page_stands_alone_and_every_fault_tells_what_it_was(result):
    written = write_report(result)
    text = written.read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.addresses == []
    assert not re.search(r"https?://|@import|url\(", text)
    assert len([tip for tip in page.tips if tip.startswith("kill storage-1\nat 9.0 s")]) == 2
    assert any("nothing was committed any more" in tip for tip in page.tips)
    assert page.classes["gap"] == 2
    assert page.classes["lag-line"] == 2
    assert "<b>x" not in text
    assert "and 10 more" in text
    assert {one.name for one in result.options.folder.iterdir()} == {
        "report.json",
        "report.md",
        "report.html",
    }


def test_a_page_of_a_run_without_a_single_commit(result):
    nothing = measure(History(), "pulse", 0, 0, ROLES, [])
    page = Page()
    page.feed(build_page(report_content(result), nothing))
    assert page.open == []


def test_scales_and_steps():
    scale = Scale(0, 10, 100, 200)
    assert [scale(value) for value in (-1, 0, 5, 10, 99)] == [100, 100, 150, 200, 200]
    assert Scale(1, 1_000, 0, 300, is_log=True).ticks() == [1, 10, 100, 1_000]
    assert Scale(0, 31, 0, 1).ticks() == [0, 10, 20, 30]
    assert Scale(0, 600, 0, 1).ticks(SECONDS) == [0, 120, 240, 360, 480, 600]
    assert nice_step(3, (1, 2, 5, 10)) == 5
    assert nice_step(0.03, (1, 2, 5, 10)) == pytest.approx(0.05)


def test_tags_escape_what_they_are_given():
    assert tag("a", tip='"<', class_='x"') == '<a class="x&quot;" data-tip="&quot;&lt;"></a>'


def test_the_terminal_is_told(result):
    from oncelog_robustness.chaos.__main__ import show_result

    console = Console(record=True, width=120, file=io.StringIO())
    show_result(console, result, result.options.folder)
    output = console.export_text()
    assert "lost-write" in output
    assert 'again: make chaos ARGS="x"' in output
