"""The catalog of all bugs that the proxy can plant, by name."""

from collections.abc import Mapping
from typing import Final

from oncelog_robustness.lying.lie import Lie
from oncelog_robustness.lying.log_lies import (
    DropBatch,
    ReorderBatches,
    RepeatBatch,
    ShowAborted,
    StableOffsetTooFar,
)
from oncelog_robustness.lying.transaction_lies import (
    AnswerAbortedCommit,
    FenceWrong,
    ForgetOffsets,
    SameProducerId,
    ZombieWrite,
)

BUGS: Final[Mapping[str, type[Lie]]] = {
    one.name: one
    for one in (
        DropBatch,
        RepeatBatch,
        ShowAborted,
        ReorderBatches,
        SameProducerId,
        AnswerAbortedCommit,
        ForgetOffsets,
        FenceWrong,
        StableOffsetTooFar,
        ZombieWrite,
    )
}
HONEST: Final = Lie.name
