"""The pure half of the coordinator: machines, their events, their records. No I/O, no clock, no protobuf."""
