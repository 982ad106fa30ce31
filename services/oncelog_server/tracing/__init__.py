"""Shows OpenTelemetry traces without a backend: a receiver of OTLP, and a transaction's trace as a tree in the
terminal.
"""
