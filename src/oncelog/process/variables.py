"""The check for environment variables that no program reads: a mistyped name must not go unnoticed.

`ONCELOG_STORAGE_FLUSH_POLICYY=always` would otherwise start a log that does not survive a power cut. Several programs
share one environment: a process knows every name of its own tables, and leaves those of other roles to their processes.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic_settings import BaseSettings

from oncelog.errors import OncelogError
from oncelog.process.documents import page
from oncelog.process.names import FORMER, PREFIX, TABLES, UP, table_of, variable_of

CONFIG_VARIABLE: Final = "ONCELOG_CONFIG"
SINGLE: Final = (
    CONFIG_VARIABLE,
    "ONCELOG_BOOTSTRAP",
    "ONCELOG_CLIENT_CONFIG",
    "ONCELOG_GATEWAY",
    "ONCELOG_PROFILE",
    "ONCELOG_PROFILES",
    "ONCELOG_TOKEN",
    "ONCELOG_TOKEN_FILE",
    "ONCELOG_CLUSTER_FOLDER",
    "ONCELOG_COMPLETE",
)
"""Variables that the `oncelog` command itself reads. No program refuses them."""
UP_NAMES: Final = (
    "ONCELOG_DATA",
    "ONCELOG_EPHEMERAL",
    "ONCELOG_HOST",
    "ONCELOG_PORT",
    "ONCELOG_GATEWAY_PORT",
    "ONCELOG_ADVERTISED_HOST",
    "ONCELOG_ADVERTISED_PORT",
    "ONCELOG_POSTGRES",
    "ONCELOG_READY_FILE",
    "ONCELOG_LOG_LEVEL",
    "ONCELOG_LOG_FORMAT",
    "ONCELOG_TRACE_LATE_MS",
)
"""Variables of `oncelog up`. They have no second word by which another process would know them;
a test holds the list to the settings class."""
OF_THE_PROJECT: Final = re.compile(
    r"ONCELOG_((TEST|SIMULATION|FAILOVER|STORM|CHAOS|BENCH|SPARK|DEMO|E2E|CONTAINERS)_\w+|\w+_FULL|PLANTED|REWRITE)"
)
"""Variables that the project's own tests and tools read. No program refuses them."""
OF_KUBERNETES: Final = re.compile(
    r"ONCELOG_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
"""Variables that Kubernetes sets in every container beside a service whose name begins with `oncelog`. No program
refuses them."""


def refuse_unknown_variables(
    kinds: Sequence[type[BaseSettings]], environment: Mapping[str, str]
) -> None:
    """Raise OncelogError for the first `ONCELOG_` variable that is no setting; it names the nearest one. A name that
    begins as those of another role is not refused."""
    known = {variable_of(kind, name) for kind in kinds for name in kind.model_fields}
    known.update(SINGLE, UP_NAMES)
    former = {variable_of(kind, old) for kind in kinds for old in FORMER.get(table_of(kind), ())}
    own = [f"{PREFIX}{table.upper()}_" for kind in kinds if (table := table_of(kind)) != UP]
    others = [f"{PREFIX}{table.upper()}_" for table in TABLES if table != UP]
    for written, value in sorted(environment.items()):
        # The settings classes read names in any case, upper or lower.
        name = written.upper()
        if not name.startswith(PREFIX) or name in known | former or _is_of_another(name, value):
            continue
        if name.startswith(tuple(others)) and not name.startswith(tuple(own)):
            continue
        raise OncelogError(
            f"the environment has {written}={value!r}, which is no setting{meant(name, known, others)}; "
            f"correct the name or unset it, {page('settings.md')} lists all"
        )


def meant(name: str, known: Iterable[str], beginnings: Iterable[str] = ()) -> str:
    """Return ` (did you mean …?)` with the nearest known name, or an empty text when none is near."""
    # The prefix that all names share is no likeness.
    whole = {one.removeprefix(PREFIX): one for one in sorted(known)}
    near = difflib.get_close_matches(name.removeprefix(PREFIX), whole, n=1, cutoff=0.75)
    if near:
        return f" (did you mean {whole[near[0]]}?)"
    # The names of another role are not at hand, only how they begin.
    for end in range(len(name), 0, -1):
        if name[end - 1] == "_":
            near = difflib.get_close_matches(name[:end], sorted(beginnings), n=1, cutoff=0.9)
            if near and near[0] != name[:end]:
                return f" (did you mean {near[0]}{name[end:]}?)"
    return ""


def _is_of_another(name: str, value: str) -> bool:
    return (
        OF_THE_PROJECT.fullmatch(name) is not None
        or OF_KUBERNETES.fullmatch(name) is not None
        or (name.endswith("_PORT") and value.startswith(("tcp://", "udp://")))
    )
