"""The command `python -m oncelog_robustness.simulator`: it simulates a cluster for many seeds, or for one again.
A seed is the number from which a run draws its faults, delays and all other chance.

--seeds 200                 seeds 1 to 200, over all scenarios in turn
--seed 8114 --scenario storm --log   that one run, with the log lines of every process
"""

import sys

from oncelog_robustness.simulator.command import main

if __name__ == "__main__":
    sys.exit(main())
