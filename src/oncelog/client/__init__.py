"""The client: what a program outside the cluster needs to talk to it.

`cluster.py` finds brokers and leaders and repeats calls, `connection.py` speaks frames; `partition_reader.py` and
`produce_pipeline.py` move records in bulk. `core/` is the pure part: decoding, encoding, visibility, partitioning.
"""
