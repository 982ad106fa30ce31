"""A whole cluster in one process, on virtual time: real services, and a world around them that is made of a seed."""
