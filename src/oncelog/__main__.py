"""`python -m oncelog` is the `oncelog` command."""

import runpy

if __name__ == "__main__":
    # By name: this package is what the server's is built on, and imports nothing of it.
    runpy.run_module("oncelog_server", run_name="__main__", alter_sys=True)
