"""Chaos on containers: a whole cluster of the images of docker/Dockerfile, an address each, on three "machines".

    python -m oncelog_robustness.chaos --containers

A machine is a group of containers that is lost, and cut off, together. Postgres and Redis are on none of them. The
cluster belongs to the run: it is started, and it is removed with its volumes and its network, whatever happens. The
next run removes what a killed run left behind.
"""
