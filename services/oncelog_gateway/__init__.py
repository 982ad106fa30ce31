"""The gateway: REST for people and scripts, the console, metrics."""
