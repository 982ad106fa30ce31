"""offsets-outside-transaction: the committed offset that a group coordinator returns comes from a commit that was
done, and from the last one.

Each fetched offset must have been committed, in a transaction or outside, by a commit that had begun by then and
was not aborted. And no other commit may be known to have begun after that one had ended, and to have been done
before the fetch.

Fetches ask for stable offsets only, so an offset that a fetch returned is not pending for a later fetch. The offset
-1 for a group that committed something is the rule of `spurious_zero_offset`. Where offsets are deleted, a deletion
is a commit of -1, and fetches that return -1 are judged here as well.
"""

from typing import Final

from oncelog_robustness.checkers.commits_of_groups import GroupCommit, commits_of_groups
from oncelog_robustness.checkers.findings import Findings, place, span
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, OffsetsFetched, Outcome
from oncelog_robustness.observations import Observations

NOTHING: Final = -1
"""The offset in a response to a group that has none."""


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("offsets-outside-transaction")
    commits = commits_of_groups(history)
    for fetched in history.all(OffsetsFetched):
        group = fetched.fetched.group
        for topic, partition, offset in fetched.fetched.offsets:
            known = commits.get((group, topic, partition), [])
            has_deletions = any(one.offset == NOTHING for one in known)
            if known and (offset >= 0 or has_deletions):
                findings.judged += 1
                problem = _problem(fetched, offset, known)
                if problem:
                    findings.broken.append(
                        f"{fetched.client} ({span(fetched)}) was told that group {group} stands at"
                        f" {place(topic, partition, offset)}, {problem}"
                    )
    return findings.verdict("no committed offset of a group with known commits was fetched")


def _problem(fetched: OffsetsFetched, offset: int, known: list[GroupCommit]) -> str:
    until_ms = fetched.completed_ms
    begun = [one for one in known if until_ms is None or one.by.invoked_ms <= until_ms]
    same = [one for one in begun if one.offset == offset]
    counting = [one for one in same if one.is_done is not False]
    if not counting and offset != NOTHING:
        return f"which {same[0].who()} never committed" if same else "which nobody committed"
    # Only what was done before the fetch began must be seen by it; of two things in one millisecond nobody knows which
    # came first. Of a commit that was not answered it is known at the end that it was done, but not when.
    done = [
        one
        for one in begun
        if one.is_done
        and (fetched.is_final or one.by.outcome is Outcome.OK)
        and (one.by.completed_ms is None or one.by.completed_ms < fetched.invoked_ms)
    ]
    if not done:
        return ""
    last = done[-1]
    for one in counting:
        if one.ended_ms is None or one.ended_ms >= last.by.invoked_ms:
            return ""
    said = f"committed by {counting[-1].who()}" if counting else "as if nobody had committed"
    return f"{said}, but {last.who()} committed {last.offset} after that was over"
