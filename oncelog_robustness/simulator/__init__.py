"""The simulator: a whole oncelog cluster in one operating system process, on virtual time. The services are
the real ones. Network, disks, clocks and chance are simulated and drawn from a seed: the same seed gives the
same run."""
