"""The pure half of the coordinator: state machines, the events they decide, the records they write.

It has no I/O, no clock and no protobuf.
"""
