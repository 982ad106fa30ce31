"""Command lines of the harness: what is wrong is said in one line that names the value and the way out."""

import argparse
from collections.abc import Callable
from typing import Final, NoReturn

EXIT_USED_WRONGLY: Final = 2
SEED_MAX: Final = 2**63 - 1
SEEDS_MAX: Final = 1_000_000
JOBS_MAX: Final = 1_000


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Without the usage, in whose lines the reason would drown."""
        self.exit(EXIT_USED_WRONGLY, f"{self.prog}: {message}; --help lists every option\n")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """For `type=` of an argument."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            raise argparse.ArgumentTypeError(
                f"{shown!r} is not a whole number from {least} to {most}"
            )
        return number

    return read
