"""The chart's `values.schema.json`: what Helm refuses before it asks the cluster for anything.

    python -m scripts.chart_schema > deploy/helm/oncelog/values.schema.json

The tables below `config` come from the settings classes, with their types and bounds. What the chart sets itself
(addresses, node ids, ports, databases) is no key there, so it is refused.
"""

import json
from typing import Any, Final

from pydantic_settings import BaseSettings

from oncelog.process.names import FORMER, table_of, variable_of
from oncelog.process.run import ProcessSettings
from oncelog.rpc.node_settings import NodeSettings
from oncelog_server.settings import kinds_of_roles

SETTINGS: Final[tuple[type[BaseSettings], ...]] = (ProcessSettings, NodeSettings, *kinds_of_roles())
SET_BY_THE_CHART: Final = frozenset(
    {
        "ONCELOG_PROCESS_METRICS_HOST",
        "ONCELOG_PROCESS_METRICS_PORT",
        "ONCELOG_NODE_NODE_ID",
        "ONCELOG_NODE_HOST",
        "ONCELOG_NODE_PORT",
        "ONCELOG_NODE_ADVERTISED_ADDRESS",
        "ONCELOG_NODE_CONTROLLERS",
        "ONCELOG_NODE_RACK",
        "ONCELOG_NODE_TLS_CERTIFICATE_FILE",
        "ONCELOG_NODE_TLS_KEY_FILE",
        "ONCELOG_NODE_TLS_CA_FILE",
        "ONCELOG_CONTROLLER_DATABASE_URL",
        "ONCELOG_CONTROLLER_CONTROLLER_ID",
        "ONCELOG_CONTROLLER_RPC_ADDRESS",
        "ONCELOG_CONTROLLER_BOOTSTRAP_STORAGE_NODES",
        "ONCELOG_STORAGE_DATA_DIR",
        "ONCELOG_STORAGE_REDIS_URL",
        "ONCELOG_COORDINATOR_REDIS_URL",
        "ONCELOG_MARKER_SENDER_REDIS_URL",
        "ONCELOG_GATEWAY_REDIS_URL",
        "ONCELOG_LISTENER_HOST",
        "ONCELOG_LISTENER_PORT",
        "ONCELOG_LISTENER_ADVERTISED_HOST",
        "ONCELOG_LISTENER_ADVERTISED_PORT",
        "ONCELOG_LISTENER_LOOPBACK_FORWARDED",
        "ONCELOG_LISTENER_EXTERNAL_PORT",
        "ONCELOG_LISTENER_EXTERNAL_ADVERTISED",
        "ONCELOG_GATEWAY_HOST",
        "ONCELOG_GATEWAY_PORT",
        "ONCELOG_GATEWAY_ALLOWED_HOSTS",
        "ONCELOG_GATEWAY_AUDIT_PATH",
    }
)

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_FLAG: Final[Schema] = {"type": "boolean"}
_OBJECT: Final[Schema] = {"type": "object"}
_OBJECTS: Final[Schema] = {"type": "array", "items": _OBJECT}
_TEXTS: Final[Schema] = {"type": "array", "items": _NAME}
_PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
_SIZE: Final[Schema] = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$",
}
_QUANTITY: Final[Schema] = {
    "type": ["string", "number"],
    "minimum": 0,
    "pattern": r"^[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$",
}
"""An amount of processors or memory; `--set` makes a number of one without a unit."""
_DURATION: Final[Schema] = {"type": "string", "pattern": r"^([0-9]+(h|m|s|ms))+$"}
_LABELS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_SERVICE_TYPE: Final[Schema] = {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}
_PERSISTENCE: Final[Schema] = {"enabled": _FLAG, "size": _SIZE, "storageClass": _TEXT}
_POD: Final[dict[str, Schema]] = {
    "nodeSelector": _LABELS,
    "tolerations": _OBJECTS,
    "affinity": _OBJECT,
    "topologySpreadConstraints": _OBJECTS,
    "podLabels": _LABELS,
    "podAnnotations": _LABELS,
    "priorityClassName": _TEXT,
    "extraEnv": _OBJECTS,
}
"""The values of the pod of every role, and of Spark's driver."""
_RATIO: Final = r"^(0|1|0?\.\d+|1\.0+)$"
_REPLICAS_MAX: Final = 100
"""A role has no more replicas: its node ids end where those of the next role begin."""


def _closed(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _resources() -> Schema:
    quantities: Schema = {"type": "object", "additionalProperties": _QUANTITY}
    return _closed(requests=quantities, limits=quantities, claims=_OBJECTS)


def _role(least: int = 1, **more: Schema) -> Schema:
    return _closed(
        replicas={"type": "integer", "minimum": least, "maximum": _REPLICAS_MAX},
        resources=_resources(),
        **_POD,
        antiAffinity={"enum": ["soft", "hard"]},
        **more,
    )


def _storage() -> Schema:
    keeps: Schema = {"enum": ["Retain", "Delete"]}
    return _role(
        persistence=_closed(
            **_PERSISTENCE,
            accessModes=_TEXTS,
            annotations=_LABELS,
            whenDeleted=keeps,
            whenScaled=keeps,
        )
    )


def _listener() -> Schema:
    return _role(
        service=_service(),
        external=_closed(
            enabled=_FLAG,
            type={"enum": ["NodePort", "LoadBalancer"]},
            port=_PORT,
            firstNodePort=_PORT,
            hosts=_TEXTS,
            annotations=_LABELS,
            loadBalancerIPs=_TEXTS,
        ),
    )


def _gateway() -> Schema:
    ingress = _closed(
        enabled=_FLAG,
        className=_TEXT,
        annotations=_LABELS,
        host=_NAME,
        path=_NAME,
        tls=_OBJECTS,
    )
    # Each replica would write a file of that name into the one volume.
    with_claim = {"properties": {"existingClaim": {"minLength": 1}}, "required": ["existingClaim"]}
    one_writer: Schema = {
        "if": {
            "properties": {"audit": with_claim},
            "required": ["audit"],
        },
        "then": {"properties": {"replicas": {"maximum": 1}}},
    }
    return one_writer | _role(
        service=_service(),
        allowedHosts=_TEXTS,
        audit=_closed(existingClaim=_TEXT),
        ingress=ingress,
    )


def _spark() -> Schema:
    memory: Schema = {"type": "string", "pattern": "^[1-9][0-9]*[kmgt]$"}
    checkpoint = {name: one for name, one in _PERSISTENCE.items() if name != "enabled"}
    return _closed(
        enabled=_FLAG,
        mode={"enum": ["local", "executors"]},
        command=_TEXTS,
        configMap=_TEXT,
        clientConfigSecret=_TEXT,
        conf={
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "propertyNames": {"pattern": r"^spark\.[A-Za-z0-9._-]+$"},
        },
        checkpoint=_closed(uri=_TEXT, existingClaim=_TEXT, **checkpoint),
        driver=_closed(memory=memory, resources=_resources(), **_POD),
        executor=_closed(
            instances={"type": "integer", "minimum": 1, "maximum": 1000},
            cores={"type": "integer", "minimum": 1, "maximum": 256},
            memory=memory,
            cpuRequest={"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?m?$"},
            nodeSelector=_LABELS,
            tolerations=_OBJECTS,
            extraEnv=_OBJECTS,
        ),
        payments=_closed(
            rows={"type": "integer", "minimum": 0, "maximum": 20_000_000},
            seed={"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
            resources=_resources(),
        ),
    )


def _security() -> Schema:
    return _closed(
        enabled=_FLAG,
        certificates=_closed(
            source={"enum": ["development", "certManager", "given"]},
            days={"type": "integer", "minimum": 1, "maximum": 3650},
            issuer=_closed(name=_TEXT, kind=_NAME, group=_NAME),
            secretPrefix=_TEXT,
        ),
        clients=_closed(
            protocol={"enum": ["SASL_SSL", "SSL"]},
            superUsers={"type": "array", "items": {"type": "string", "pattern": "^[^;:]+$"}},
            usersSecret=_TEXT,
        ),
    )


def _service() -> Schema:
    return _closed(type=_SERVICE_TYPE, port=_PORT, annotations=_LABELS)


def _external() -> Schema:
    return _closed(url=_TEXT, existingSecret=_TEXT, existingSecretKey=_NAME)


def _database(**more: Schema) -> Schema:
    return _closed(
        bundled=_FLAG,
        image=_NAME,
        existingSecret=_TEXT,
        resources=_resources(),
        nodeSelector=_LABELS,
        tolerations=_OBJECTS,
        affinity=_OBJECT,
        topologySpreadConstraints=_OBJECTS,
        external=_external(),
        **more,
    )


def config_schema() -> Schema:
    """The schema of `config`, with its tables."""
    return _closed(**{table_of(kind): _table(kind) for kind in SETTINGS})


def _table(kind: type[BaseSettings]) -> Schema:
    described = kind.model_json_schema()
    definitions = described.get("$defs", {})
    properties = {
        name: _field(schema, definitions)
        for name, schema in described["properties"].items()
        if variable_of(kind, name) not in SET_BY_THE_CHART
    }
    for old, now in FORMER.get(table_of(kind), {}).items():
        properties[old] = {**properties[now], "description": f"the former name of {now}"}
    return _closed(**properties)


def _field(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """The type, bounds and meaning of a setting. It is never `null`: one that is not wanted is left out."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]] | schema
    for choice in schema.get("anyOf", []):
        if choice.get("type") != "null":
            schema = choice | schema
    kept = (
        "type",
        "enum",
        "minimum",
        "maximum",
        "maxLength",
        "minLength",
        "pattern",
        "description",
    )
    return {name: schema[name] for name in kept if name in schema}


def values_schema() -> Schema:
    """The schema of all values."""
    properties = {
        "global": _OBJECT,
        "nameOverride": _TEXT,
        "fullnameOverride": _TEXT,
        "image": _closed(
            registry=_TEXT,
            repository=_NAME,
            tag=_TEXT,
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            pullSecrets=_OBJECTS,
        ),
        "commonLabels": _LABELS,
        "clusterDomain": _NAME,
        "bindAddress": {"enum": ["0.0.0.0", "::"]},
        "config": config_schema(),
        "tracing": _closed(
            endpoint={"type": "string", "pattern": r"^(https?://\S+)?$"},
            # `--set` makes a string of what has a point.
            ratio={"type": ["number", "string"], "minimum": 0, "maximum": 1, "pattern": _RATIO},
            collector=_role(enabled=_FLAG, image=_NAME, headers=_LABELS, config=_OBJECT),
        ),
        "controller": _role(),
        "storage": _storage(),
        "coordinator": _role(),
        "markerSender": _role(),
        "listener": _listener(),
        "gateway": _gateway(),
        "postgres": _database(persistence=_closed(**_PERSISTENCE)),
        "redis": _database(enabled=_FLAG, maxMemory=_NAME),
        "networkPolicy": _closed(enabled=_FLAG, clients=_OBJECTS),
        "security": _security(),
        "jobs": _closed(
            migration=_FLAG,
            scaling=_FLAG,
            timeoutSeconds={"type": "integer", "minimum": 1},
            resources=_resources(),
        ),
        "chaos": _closed(
            enabled=_FLAG,
            machines=_FLAG,
            job=_closed(
                enabled=_FLAG,
                minutes={"type": "integer", "minimum": 1, "maximum": 1440},
                seed={"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
                keepSeconds={"type": "integer", "minimum": 0},
                extraArgs=_TEXTS,
                resources=_resources(),
            ),
        ),
        "spark": _spark(),
        "metrics": _closed(
            tokenSecret=_TEXT,
            serviceMonitor=_closed(enabled=_FLAG, interval=_DURATION, labels=_LABELS),
            prometheusRule=_closed(enabled=_FLAG, labels=_LABELS),
            dashboard=_closed(enabled=_FLAG, labels=_LABELS),
        ),
        "serviceAccount": _closed(create=_FLAG, name=_TEXT, annotations=_LABELS),
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the oncelog chart",
        **_closed(**properties),
    }


if __name__ == "__main__":
    print(json.dumps(values_schema(), indent=2))
