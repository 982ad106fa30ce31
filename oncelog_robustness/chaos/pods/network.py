"""Cutting a pod off, from inside its network: an ephemeral container with NET_ADMIN and iptables.
The container is added when it is first needed, sleeps, and stays as long as its pod does.

A NetworkPolicy would not do: policies only allow, and no policy takes back what another allows. So a pod
that the chart's policies let be called stays reachable whatever is added. Most networks also keep
connections that existed before.
"""

from collections.abc import Sequence
from typing import Any, Final

from oncelog_robustness.fault_plan import FaultKind, PlannedFault

HELPER: Final = "oncelog-chaos"
DELAY_MS: Final = (20, 300)
_CHAIN: Final = "ONCELOG-CHAOS"
# Not `sleep` itself: the first process of a namespace ignores SIGTERM, and the pod's end would wait for it.
_SLEEP: Final = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
PROBE: Final = "iptables -w 5 -nL INPUT >/dev/null && command -v tc >/dev/null"
PROBE_DELAY: Final = (
    "tc qdisc add dev lo root netem delay 1ms && tc qdisc del dev lo root netem delay 1ms"
)


def helper_patch(image: str, target: str) -> dict[str, Any]:
    """Return the patch for `pods/ephemeralcontainers` that adds the helper (a container that may change the network) to
    a pod. `target` is the container of the pod whose processes the helper sees."""
    container = {
        "name": HELPER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _SLEEP],
        "targetContainerName": target,
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
        },
    }
    return {"spec": {"ephemeralContainers": [container]}}


def cut_script(fault: PlannedFault, peers: Sequence[str]) -> str:
    """Return the shell commands that begin the fault in the target's pod.
    `peers` are the addresses to cut off; none: all."""
    if fault.kind is FaultKind.DELAY:
        shortest, longest = DELAY_MS
        delay_ms = shortest + int(fault.strength * (longest - shortest))
        return f"tc qdisc add dev eth0 root netem delay {delay_ms}ms {delay_ms // 4}ms"
    lines = [f"iptables -w 5 -N {_CHAIN}-{way}" for way in ("IN", "OUT")]
    end = "REJECT --reject-with tcp-reset" if fault.kind is FaultKind.RESET else "DROP"
    match = "-p tcp " if fault.kind is FaultKind.RESET else ""
    both = fault.kind is not FaultKind.PARTITION_ONE_WAY
    for peer in peers or ("",):
        source, sink = (f"-s {peer} ", f"-d {peer} ") if peer else ("", "")
        if both:
            lines.append(f"iptables -w 5 -A {_CHAIN}-IN {source}{match}-j {end}")
        lines.append(f"iptables -w 5 -A {_CHAIN}-OUT {sink}{match}-j {end}")
    # The loopback stays: the process talks to nobody but itself there.
    lines.append(f"iptables -w 5 -I INPUT 1 ! -i lo -j {_CHAIN}-IN")
    lines.append(f"iptables -w 5 -I OUTPUT 1 ! -o lo -j {_CHAIN}-OUT")
    return " && ".join(lines)


def heal_script() -> str:
    """Return the shell commands that undo any of these faults; running them twice does no harm."""
    lines = ["tc qdisc del dev eth0 root 2>/dev/null"]
    for way, chain, device in (("IN", "INPUT", "-i"), ("OUT", "OUTPUT", "-o")):
        name = f"{_CHAIN}-{way}"
        lines.append(
            f"while iptables -w 5 -D {chain} ! {device} lo -j {name} 2>/dev/null; do :; done"
        )
        lines.append(f"iptables -w 5 -F {name} 2>/dev/null; iptables -w 5 -X {name} 2>/dev/null")
    return "; ".join([*lines, "true"])
