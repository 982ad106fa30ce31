"""`oncelog verify BOOTSTRAP`: does this Kafka keep its promises about transactions? A verdict, with proof.

    cluster     who answers at BOOTSTRAP, and what it lacks, found out before anything is begun
    faults      what breaks the brokers meanwhile: a command, processes, containers (`pods`: Kubernetes)
    cleaning    topics and groups of a run are deleted when it ends; nothing else is touched
    promises    what Kafka's documentation promises, and which checkers answer it
    judging     a history, of a run or of a file (`jepsen`: of Jepsen's Kafka workload), against the promises
    report      one page and one JSON

The run itself, its clients and its checkers are those of `oncelog_robustness.chaos`, which tests oncelog in the same
way.
"""
