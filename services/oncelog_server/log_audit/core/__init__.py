"""The pure part of the audit: the walks that find faults in sorted batches, and the rows that go in and out."""
