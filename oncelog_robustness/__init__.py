"""The parts that try to break oncelog and judge what came of it: simulator, chaos (real processes), workloads (test
clients with a plan), histories of what clients saw, and checkers."""
