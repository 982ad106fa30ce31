"""Faults that a test injects into a log which `oncelog.running(faults=True)` started. The test's process, the parent,
asks for them over a socket that only the two have (ADR 0045).

A log that runs without faults loads nothing from here. Each fault replaces something between two roles or below one,
and puts it back at its end: a route of the listener, a servicer behind a stub, a call of `os`, the clock.
"""
