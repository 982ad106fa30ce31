"""One controller decides at a time: once a controller of a newer epoch has written to the metadata journal (the log
of all metadata changes), no older one writes.

Each append to the journal begins where its controller believes that the journal ends. So two appends that begin at
one offset are two decisions whose controllers did not know of each other. An append without a response is not seen,
and leaves a gap.
"""

from itertools import pairwise

from oncelog_robustness.checkers.cluster_case import Case
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import MetadataWritten, Observations


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("deposed-controller-wrote")
    # A controller may freeze between its append and the moment at which it is seen.
    written = sorted(observations.metadata, key=lambda one: one.first_offset)
    for first, second in pairwise(written):
        case.judge()
        if first.first_offset + first.count > second.first_offset:
            case.broken(f"{_text_of(first)} and {_text_of(second)} overlap")
        elif second.controller_epoch < first.controller_epoch:
            case.broken(f"{_text_of(second)} came behind {_text_of(first)}")
    return case.verdict()


def _text_of(written: MetadataWritten) -> str:
    last = written.first_offset + written.count - 1
    return (
        f"metadata {written.first_offset}..{last} of controller {written.controller_id}"
        f" (controller epoch {written.controller_epoch}, {written.at_ms} ms)"
    )
