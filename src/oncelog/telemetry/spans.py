"""The spans of this process, and the traces that they belong to (ADR 0028).

```
with span("coordinator EndTxn", shard=7):          # child of the span that runs now, in the same home
    ...
    current().home.move(trace)                      # the whole home moves into this transaction's trace
```

A request's spans in this process share one `Home`, which says the trace that they belong to. It changes when the
transaction is known: from the coordinator, from the answer of a call, or from the start. No span is exported before the
home's outermost span ends.

While `recorder` is None nothing is recorded: `span` gives a context manager that does nothing, and every other function
returns at once.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar, Token, copy_context
from enum import IntEnum
from types import TracebackType
from typing import Final, Protocol

from oncelog.trace import Traceparent, TransactionTrace

Value = str | int | float | bool
Attributes = dict[str, Value]
Details = Callable[[], Attributes]
"""A function that returns attributes when their span is exported: most spans are never asked for."""


class Kind(IntEnum):
    """The kind of a span, with OpenTelemetry's numbers."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2
    PRODUCER = 3
    CONSUMER = 4


class Recorder(Protocol):
    """The interface of what gets ended spans and decides which are kept: `oncelog.telemetry.recorder.TraceRecorder`."""

    late_ms: int
    spans_waiting: int
    spans_kept: int
    spans_dropped: int

    def add_spans(self, home: "Home", ended: "Sequence[Span]") -> None: ...

    def root(
        self,
        trace: TransactionTrace,
        name: str,
        end_ns: int,
        attributes: Attributes,
        *,
        is_kept: bool,
    ) -> None: ...

    def verdict(self, trace_id: int, *, is_kept: bool) -> None: ...

    def is_in_head(self, trace_id: int) -> bool: ...

    def is_kept(self, trace_id: int) -> bool: ...


recorder: Recorder | None = None
"""The recorder of this process, which takes ended spans; set by `oncelog.telemetry.tracing`."""

_SPAN_ID: Final = (1 << 64) - 1
_current: ContextVar["Span | None"] = ContextVar("oncelog_span", default=None)


def new_trace_id() -> int:
    return random.getrandbits(128) or 1


def new_ids() -> tuple[int, int]:
    """Return the ids of a new trace and of a new span."""
    drawn = random.getrandbits(192)
    return drawn >> 64 or 1, drawn & _SPAN_ID or 1


def new_span_id() -> int:
    return random.getrandbits(64) or 1


class Home:
    """The spans of one request in this process, and the trace that they belong to, which may change until the last one
    ends.

    Many homes and `Span`s are made, and few are asked for. So the values that most of them never change stand in the
    class.
    """

    caller: Traceparent | None = None
    is_caller_ours = True
    """True if the caller's spans move with the transaction as ours do; a client's stay in the client's trace."""
    is_kept = False
    is_over = False
    ended: "Sequence[Span]" = ()
    """The ended spans below the outermost."""
    unanswered: "tuple[Span, ...]" = ()
    """The spans whose call was answered without naming the transaction, which was unknown when they called. The spans
    of the called process stay in the trace under which it was called."""
    _trace_id = 0
    """The id of the trace while no transaction is known."""

    def __init__(
        self,
        trace: TransactionTrace | None = None,
        caller: Traceparent | None = None,
        start_ns: int = 0,
    ) -> None:
        self.trace = trace
        """The transaction's trace; None while none is known."""
        self.start_ns = start_ns or time.time_ns()
        if caller is not None:
            self.caller = caller
            self.is_kept = caller.is_kept
            self._trace_id = caller.trace_id

    @property
    def trace_id(self) -> int:
        """The id of the trace that the spans belong to now. A random one is drawn only when it is asked for: most homes
        soon move into a transaction's trace."""
        if self.trace is not None:
            return self.trace.trace_id
        if not self._trace_id:
            self._trace_id = new_trace_id()
        return self._trace_id

    @property
    def first_trace_id(self) -> int:
        """The id of the trace that the request had before its transaction was known; 0: none was drawn."""
        return self._trace_id

    def move(self, trace: TransactionTrace, *, is_kept: bool = False) -> None:
        """Put the spans into the trace of this transaction. The last call counts: an earlier one may have been a
        guess."""
        self.trace = trace
        if is_kept:
            self.is_kept = True


class Span:
    """A span that runs, or has ended. The function `span` makes one."""

    details: tuple[Details, ...] = ()
    end_ns = 0
    error = ""
    links: Sequence[Traceparent] = ()
    _span_id = 0
    _token: Token["Span | None"] | None = None

    def __init__(
        self,
        name: str,
        home: Home,
        parent: "Span | None",
        kind: Kind,
        attributes: Attributes,
        start_ns: int = 0,
    ) -> None:
        self.name = name
        self.home = home
        self.parent = parent
        """The span above; None for the outermost of its home."""
        self.kind = kind
        self.attributes = attributes
        self.start_ns = start_ns or time.time_ns()

    @property
    def span_id(self) -> int:
        """The span's id. It is drawn only when it is first asked for, because most spans are never exported."""
        if not self._span_id:
            self._span_id = new_span_id()
        return self._span_id

    def __enter__(self) -> "Span":
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)
        del self._token  # It keeps the whole context.
        self.end("" if error is None else _said(error))

    def set(self, **attributes: Value) -> None:
        self.attributes.update(attributes)

    def end(self, error: str = "", end_ns: int = 0) -> None:
        """End the span, once. The end of a request's outermost span hands all its spans to the recorder; a later one is
        handed over alone."""
        self.end_ns = end_ns or time.time_ns()
        if error and not self.error:
            self.error = error
        home = self.home
        if self.parent is not None and not home.is_over:
            home.ended = (*home.ended, self)
            return
        home.is_over = True
        ended, home.ended = (*home.ended, self), ()
        if recorder is not None:
            recorder.add_spans(home, ended)


class Nothing:
    """A span that records nothing, with methods that do nothing. `span` returns it in a process that records no
    spans."""

    def __enter__(self) -> "Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def set(self, **attributes: Value) -> None:
        return None

    def end(self, error: str = "") -> None:
        return None


NOTHING: Final = Nothing()


current: Final[Callable[[], Span | None]] = _current.get
"""The span that runs now."""


def span(name: str, kind: Kind = Kind.INTERNAL, **attributes: Value) -> Span | Nothing:
    """Start a child of the span that runs now, and return it as a context manager; NOTHING if none runs."""
    if recorder is None:
        return NOTHING
    parent = _current.get()
    if parent is None:
        return NOTHING
    return Span(name, parent.home, parent, kind, attributes)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def outermost(
    name: str,
    kind: Kind,
    *,
    trace: TransactionTrace | None = None,
    caller: Traceparent | None = None,
    is_caller_ours: bool = True,
    start_ns: int = 0,
    attributes: Attributes | None = None,
) -> Span | Nothing:
    """Start the first span of a request in this process, in a new `Home`, and return it as a context manager. `trace`
    is the transaction's, if it is known; `caller` the span of the caller; `attributes` is used, not copied."""
    if recorder is None:
        return NOTHING
    home = Home(trace, caller, start_ns)
    home.is_caller_ours = is_caller_ours
    return Span(name, home, None, kind, {} if attributes is None else attributes, start_ns)


def exemplar() -> int:
    """Return the trace id of the running span, to be shown beside a histogram; 0 if the trace may not be exported."""
    if recorder is None:
        return 0
    running = _current.get()
    if running is None:
        return 0
    home = running.home
    if home.is_kept:
        return home.trace_id
    trace = home.trace
    return trace.trace_id if trace is not None and recorder.is_kept(trace.trace_id) else 0


def detached_context() -> Context:
    """Return a copy of the present context without the running span: for tasks and timers that outlive the request that
    starts them."""
    context = copy_context()
    context.run(_current.set, None)
    return context
