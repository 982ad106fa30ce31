"""The target of a run of `oncelog verify`: a cluster at an address, what may be broken in it, and what is cleaned when
the run ends."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.contract import OnProgress
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.observations import Observations
from oncelog_robustness.verify.cleaning import clean_now
from oncelog_robustness.verify.cluster import Found
from oncelog_robustness.verify.faults import Driver, DriverInjector, members_of

CLIENT_DECK: Final = {FaultKind.CLIENT_KILL: 1}


class VerifyTarget:
    """The cluster under test, as a run of chaos sees it (its `Target`). `close` deletes the run's topics and groups,
    unless `is_hurried` is set. `cleaned` then says what was removed, or why that failed."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        client_config: str,
        found: Found,
        prefix: str,
        driver: Driver | None,
        left: str,
    ) -> None:
        """Make the target. `prefix` begins the names of the run's topics and groups. `driver` breaks processes of the
        cluster; None: only clients are killed. `left` says how topics and groups that cannot be cleaned can be removed
        later."""
        self.bootstrap = ",".join(bootstrap)
        self.client_config = client_config
        named = f", cluster {found.cluster_id}" if found.cluster_id else ""
        self.name = f"Kafka at {self.bootstrap}{named}"
        self.replicas = found.replicas
        self.limits: Sequence[str] = found.left_out
        self.is_hurried = False
        self.cleaned = ""
        self._addresses = list(bootstrap)
        self._prefix = prefix
        self._driver = driver
        self._left = left

    @property
    def roles(self) -> Sequence[str]:
        return tuple(self.members)

    @property
    def decks(self) -> Mapping[str, Mapping[FaultKind, int]]:
        own = {} if self._driver is None else {self._driver.role: self._driver.deck}
        return {CLIENTS: CLIENT_DECK, **own}

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        return members_of(self._driver)

    def start(self, on_progress: OnProgress) -> None:
        """Do nothing: the cluster runs already, and was checked by the first look."""

    def injector(self, kill_client: Callable[[float], str]) -> DriverInjector:
        return DriverInjector(self._driver, kill_client)

    def observe(self, at_ms: int) -> Observations:
        """Return no observations: a foreign cluster cannot be seen from the inside."""
        return Observations(is_healed=True)

    def verdicts(self) -> Sequence[Verdict]:
        return ()

    def close(self) -> None:
        if self.is_hurried:
            return
        try:
            self.cleaned = clean_now(self._addresses, self._prefix)
        except OncelogError as error:
            self.cleaned = f"{error}; {self._left}"
