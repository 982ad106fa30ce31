"""The errors for a partition without a valid position where `auto.offset.reset` is none: the program must seek."""

from oncelog.client.errors import NoOffsetError
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


def made_again(partition: Partition, position: int) -> NoOffsetError:
    text = (
        f"topic {partition.topic!r} was deleted and made again: offset {position} of {partition} means nothing in the "
        "new one; seek to where reading should go on"
    )
    return NoOffsetError(text, partition, position, ErrorCode.UNKNOWN_TOPIC_ID)


def out_of_range(partition: Partition, offset: int) -> NoOffsetError:
    text = (
        f"offset {offset} is not in the log of {partition} any more, or not yet: seek to another one, or set "
        "auto.offset.reset to earliest or latest"
    )
    return NoOffsetError(text, partition, offset, ErrorCode.OFFSET_OUT_OF_RANGE)


def nothing_committed(partition: Partition) -> NoOffsetError:
    return NoOffsetError(
        f"there is no committed offset of {partition} and auto.offset.reset is none: seek to one, or set it to "
        "earliest or latest",
        partition,
    )


def truncated(partition: Partition, position: int, end_offset: int) -> NoOffsetError:
    text = (
        f"the log of {partition} was truncated to offset {end_offset}, below the position {position}: records that "
        "were read are gone; seek to where reading should go on"
    )
    return NoOffsetError(text, partition, position)
