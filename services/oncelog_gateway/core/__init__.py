"""The gateway's pure core: the decisions that need no I/O, such as which transactions hang and which abort is safe."""
