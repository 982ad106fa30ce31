"""Traces without a backend: a receiver of OTLP, and a transaction's tree in the terminal."""
