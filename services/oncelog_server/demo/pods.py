"""The demo's parts as programs of their own, for when each runs in a pod (docs/kubernetes.md).

    python -m oncelog_server.demo.pods topics            make the topics that are missing
    python -m oncelog_server.demo.pods send --rows N     send payments, each once, whatever dies meanwhile
    python -m oncelog_server.demo.pods pipeline          the Spark driver; spark-defaults.conf says where it runs
    python -m oncelog_server.demo.pods prove --rows N    wait until all is booked, and prove that it is, once

Each may be killed at any time and run again: `send` asks the log how far it was, `pipeline` its checkpoint.
Only `pipeline` needs PySpark: it runs in an image of its own.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from oncelog.errors import ErrorCode, OncelogError
from oncelog_server.cli.client_config import KafkaAddress, read_client_config
from oncelog_server.demo.pipeline import PipelineSettings, run_until_stopped
from oncelog_server.demo.proof import Check
from oncelog_server.demo.scenario import PaymentsScenario, transaction_rows

LOOK_AGAIN_S: Final = 3.0
DECIDED_TIMEOUT_S: Final = 30.0


class ProofFailed(OncelogError):
    """The proof does not hold: at the deadline something is missing, doubled or wrong."""


def main(arguments: Sequence[str]) -> int:
    """Run one part of the demo. Returns 0, or 1 with one line that says what failed."""
    options = _parser().parse_args(arguments)
    try:
        login = read_client_config(options.config).login
        options.bootstrap = KafkaAddress(options.bootstrap, login)
        options.run(options)
    except OncelogError as error:
        print(f"{options.part}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m oncelog_server.demo.pods")
    parts = parser.add_subparsers(dest="part", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--bootstrap",
        default=os.environ.get("ONCELOG_BOOTSTRAP", "localhost:9092"),
        help="host:port of oncelog; default: ONCELOG_BOOTSTRAP",
    )
    common.add_argument(
        "--config",
        default=os.environ.get("ONCELOG_CLIENT_CONFIG", ""),
        help="how to log in: a client.properties of Kafka; default: ONCELOG_CLIENT_CONFIG",
    )
    payments = argparse.ArgumentParser(add_help=False)
    payments.add_argument("--rows", type=_positive, required=True, help="how many payments")
    payments.add_argument("--seed", type=int, default=1, help="another seed gives other payments")
    parts.add_parser("topics", parents=[common]).set_defaults(run=_make_topics)
    parts.add_parser("send", parents=[common, payments]).set_defaults(run=_send)
    prove = parts.add_parser("prove", parents=[common, payments])
    prove.add_argument("--timeout", type=float, default=600.0, help="seconds to wait for Spark")
    prove.set_defaults(run=_prove)
    pipeline = parts.add_parser("pipeline", parents=[common])
    pipeline.add_argument("--checkpoint", required=True, help="folder or URI that outlives the pod")
    pipeline.add_argument("--transactional-id", default="payments-to-ledger")
    pipeline.add_argument("--offsets-per-trigger", type=_positive, default=20_000)
    pipeline.set_defaults(run=_run_pipeline)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def _make_topics(options: argparse.Namespace) -> None:
    from oncelog_server.demo.topics import make_topics

    scenario = PaymentsScenario(rows=0, seed=0)
    for name, error in make_topics(options.bootstrap, scenario).items():
        if error is None:
            print(f"topic {name} is made", flush=True)
        elif error.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise OncelogError(f"cannot make topic {name}: {error}") from error


def _send(options: argparse.Namespace) -> None:
    from oncelog_server.demo.producer import DemoProducer

    scenario = PaymentsScenario(options.rows, options.seed)
    producer = DemoProducer(
        options.bootstrap, scenario, "payments-sender", transaction_rows(options.rows)
    )
    producer.run(lambda _: False)
    print(f"{scenario.title} are sent", flush=True)


def _run_pipeline(options: argparse.Namespace) -> None:
    settings = PipelineSettings(
        bootstrap=str(options.bootstrap),
        client_config=options.config,
        input_topic=PaymentsScenario.input_topic,
        checkpoint=options.checkpoint,
        transactional_id=options.transactional_id,
        offsets_per_trigger=options.offsets_per_trigger,
        numeric_columns=None,
        scratch="",
    )
    from pyspark.sql import SparkSession

    run_until_stopped(lambda: SparkSession.builder.appName("payments").getOrCreate(), settings)


def _prove(options: argparse.Namespace) -> None:
    scenario = PaymentsScenario(options.rows, options.seed)
    deadline = time.monotonic() + options.timeout
    while True:
        checks = _checks(options.bootstrap, scenario)
        failed = [check for check in checks if not check.holds]
        if not failed:
            break
        # A row that is there twice will not go away.
        is_final = any(check.what.endswith(": duplicates") for check in failed)
        if is_final or time.monotonic() > deadline:
            raise ProofFailed("; ".join(_text_of(check) for check in failed))
        print(f"not yet: {_text_of(failed[0])}", flush=True)
        time.sleep(LOOK_AGAIN_S)
    for check in checks:
        print(f"{check.what:<40} {check.found:>16}")
    print("Exactly once: nothing lost, nothing doubled, no cent astray.", flush=True)


def _checks(bootstrap: str, scenario: PaymentsScenario) -> list[Check]:
    from oncelog_server.demo.reader import CommittedReader

    proof = scenario.proof()
    topics = (scenario.input_topic, *scenario.output_topics)
    with CommittedReader(bootstrap) as reader:
        reader.wait_until_decided(topics, DECIDED_TIMEOUT_S)
        for topic in topics:
            for record in reader.read(topic):
                proof.add(topic, record.key, record.value)
    return proof.checks()


def _text_of(check: Check) -> str:
    return f"{check.what}: {check.found}, due {check.expected}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
