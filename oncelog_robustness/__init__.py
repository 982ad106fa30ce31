"""The parts that try to break oncelog and judge it: simulator, workloads, histories, checkers, chaos."""
