"""What tries to break oncelog, and what judges it: simulator, workloads, histories, checkers, chaos. Never shipped."""
