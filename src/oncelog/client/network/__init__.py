"""Brokers as a client on asyncio reaches them: connections, metadata, coordinators."""
