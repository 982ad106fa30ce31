"""The gateway: the role of a cluster that serves REST for people and scripts, the web console, and
Prometheus metrics.
"""
