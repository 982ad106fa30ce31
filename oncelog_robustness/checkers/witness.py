"""The witness of a verdict: the few operations of a history that prove one sentence of it, short enough to read in
a minute.

Operations are left out, by halves, quarters and so on, as long as the checker still says that very sentence (delta
debugging, Zeller and Hildebrandt 2002). The operations that stay prove it. A sentence about something that is
missing, such as "no transaction consumed it", is proved only by the whole history.
"""

import re
from collections.abc import Sequence
from typing import Final

from oncelog_robustness.checkers.verdict import Answer, Checker, Verdict
from oncelog_robustness.history import AnyOperation, History
from oncelog_robustness.observations import Observations

_MORE: Final = re.compile(r" \(and \d+ more of it\)$")


def witness(
    check: Checker, history: History, observations: Observations, sentence: str
) -> list[AnyOperation]:
    """Return operations of the history, in order, for which `check` still says `sentence`, and no longer says it if
    one more is left out.

    All operations are returned if `check` does not say `sentence` of this history.
    """
    wanted = _bare(sentence)

    def says(operations: Sequence[AnyOperation]) -> bool:
        verdict = check(History(history.facts, list(operations)), observations)
        return _says(verdict, wanted)

    kept = list(history.operations)
    if not says(kept):
        return kept
    parts = 2
    while len(kept) > 1:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if rest and says(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(kept))
    return kept


def _bare(sentence: str) -> str:
    return _MORE.sub("", sentence)


def _says(verdict: Verdict, wanted: str) -> bool:
    return verdict.answer is Answer.BROKEN and any(_bare(one) == wanted for one in verdict.proof)
