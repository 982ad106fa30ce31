"""The sessions of a process (the streams that carry its calls), one for each address it calls."""

import asyncio
from collections.abc import Collection

from oncelog.rpc.session_client import PeerSession
from oncelog.rpc.sessions import SessionLimits


class SessionPool:
    """The sessions of this process (streams that carry its calls) by address, made on demand.

    A session costs nothing until its first call.
    """

    def __init__(self, limits: SessionLimits) -> None:
        self.limits = limits
        self._sessions: dict[str, PeerSession] = {}
        self._ending: list[PeerSession] = []

    def get(self, address: str) -> PeerSession:
        session = self._sessions.get(address)
        if session is None:
            session = self._sessions[address] = PeerSession(address, self.limits)
        return session

    def keep_only(self, addresses: Collection[str]) -> None:
        """End every session with an address that is not among these: the node there has left or moved."""
        for address in [address for address in self._sessions if address not in addresses]:
            session = self._sessions.pop(address)
            session.end()
            self._ending.append(session)
        self._ending = [session for session in self._ending if not session.has_ended]

    async def close(self) -> None:
        sessions = [*self._sessions.values(), *self._ending]
        self._sessions, self._ending = {}, []
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(session.close())
