"""Chaos on Kubernetes: faults given to the pods of a release, and to the machines under them, through the API.

    oncelog chaos --kubernetes --namespace shop --release oncelog

A pod is struck by its role and number (`storage-101`, `gateway-1`), never by a name that a Deployment has drawn. The
controller of a pod that was deleted makes another one under another name. The injector waits until that one is Ready.
"""
