"""The walks and their rows. Pure."""
