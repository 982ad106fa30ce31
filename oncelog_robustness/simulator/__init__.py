"""The simulator: a whole cluster in one process on virtual time, with real services in a world
that is drawn from a seed."""
