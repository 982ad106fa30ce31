"""What every process of a cluster has in common: settings, logs, signals, readiness, and the order of its end."""
