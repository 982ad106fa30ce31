"""The argument parser of the robustness commands. An error is one line that names the wrong value and the way out."""

import argparse
from collections.abc import Callable
from typing import Final, NoReturn

EXIT_USED_WRONGLY: Final = 2
SEED_MAX: Final = 2**63 - 1
SEEDS_MAX: Final = 1_000_000
JOBS_MAX: Final = 1_000


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the error alone and exit; the usage is left out, because the reason would drown in its lines."""
        self.exit(EXIT_USED_WRONGLY, f"{self.prog}: {message}; --help lists every option\n")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a parser for `type=` of an argument that accepts whole numbers from `least` to `most`."""

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
