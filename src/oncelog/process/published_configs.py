"""The settings that a node publishes to the controller, so that any listener can answer DescribeConfigs."""

from pathlib import Path

from oncelog.broker_config import BROKER_CONFIGS


def published(role: str, settings: object) -> dict[str, str]:
    """Return the settings of a role that differ from Kafka's defaults, under Kafka's names and in Kafka's units. The
    node registers them."""
    found = {}
    for name, row in BROKER_CONFIGS.items():
        owner, _, attribute = row.setting.partition(".")
        if owner == role:
            setting = getattr(settings, attribute)
            value = _as_text(setting, row.divisor)
            if setting is not None and value != row.key.default:
                found[name] = value
    return found


def _as_text(value: object, divisor: int) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value // divisor)
    return str(value.absolute() if isinstance(value, Path) else value)
