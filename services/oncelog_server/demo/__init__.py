"""`oncelog demo`: payments through a transactional producer and Spark, three kills, and a proof at the end."""
