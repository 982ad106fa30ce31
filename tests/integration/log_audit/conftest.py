"""What the tests of damage to files have."""

from tests.integration.storage.damage_judge import plain_settings  # noqa: F401
