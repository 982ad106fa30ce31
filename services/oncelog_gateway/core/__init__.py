"""What the gateway decides, without I/O: which transactions hang, and which abort is safe."""
