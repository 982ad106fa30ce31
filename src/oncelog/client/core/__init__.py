"""The client's pure parts: bytes in, values out; no socket, clock or thread."""
