"""The command `python -m oncelog_robustness.simulator`: it runs many seeds, or one seed again.

--seeds 200                 seeds 1 to 200, over all scenarios in turn
--seed 8114 --scenario storm --log   that one run, with the log lines of every process
"""

import sys

from oncelog_robustness.simulator.command import main

if __name__ == "__main__":
    sys.exit(main())
