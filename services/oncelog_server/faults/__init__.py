"""Faults of a log that `oncelog.running(faults=True)` started: its parent asks for them over a socket that only the two
have (ADR 0045).

A log that runs without faults loads nothing from here. Each fault takes the place of something between two roles or
below one, and gives it back: a route of the listener, a servicer behind a stub, a call of `os`, the clock.
"""
