"""The errors that the client raises. Three families say what a program can do about an error.

```
RetriableError    retry it: nothing is known to be wrong with what was asked
AbortableError    abort it: the transaction can only be aborted, and the producer lives on
FatalError        this producer (or consumer) is over: close it and make a new one
```

`error_code` is Kafka's code where a broker gave one. `may_be_done` says whether it may have happened. Every error is an
`OncelogError`.
"""

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Partition


class ClientError(OncelogError):
    """An error of the client. `error_code` is None where no broker answered.

    `may_be_done` is True if the operation may have happened all the same; False: it did not happen, and never will.
    """

    def __init__(
        self, message: str, error_code: ErrorCode | None = None, *, may_be_done: bool = False
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.may_be_done = may_be_done


class RetriableError(ClientError):
    """An error after which the same call may succeed later."""


class AbortableError(ClientError):
    """An error of the open transaction, which can only be aborted. Then the producer goes on."""


class FatalError(ClientError):
    """The end of this client, which can do nothing more. Close it and make a new one."""


class TimedOutError(RetriableError, TimeoutError):
    """The time limit of a call passed."""


class BufferExhaustedError(TimedOutError):
    """`buffer.memory` had no room within `max.block.ms`. The record was not sent."""


class DisconnectedError(RetriableError):
    """The connection broke. Requests without an answer may have been done."""


class RefusedError(ClientError):
    """A broker refused this one request or record. Other requests and records are not concerned."""


class RecordTooLargeError(RefusedError):
    """The record is larger than `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""


class AuthorizationError(RefusedError):
    """The user of this client lacks the permission for the request."""


class AuthenticationError(FatalError):
    """The login was refused, or the broker's certificate is not trusted."""


class FencedError(FatalError):
    """A newer producer has the same transactional.id, or the coordinator ended this one's transaction."""


class UnsupportedError(FatalError):
    """The broker does not serve what this client needs."""


class NoOffsetError(ClientError):
    """The offset to read from does not exist: it is out of the log, was truncated, or nothing was ever committed.

    `partition` and `offset` name the position; offset -1: there was none. The program must seek to another offset.
    """

    def __init__(
        self,
        message: str,
        partition: Partition,
        offset: int = -1,
        error_code: ErrorCode | None = None,
    ) -> None:
        super().__init__(message, error_code)
        self.partition = partition
        self.offset = offset


class SerializationError(ClientError, ValueError):
    """A key or a value could not be turned into bytes."""


class IllegalStateError(ClientError, RuntimeError):
    """The state of this client does not allow the call. It is a mistake in the program."""


class ConfigError(ClientError, ValueError):
    """A setting has a value that it cannot have. The text names the setting and the way out."""
