"""Who may join a worker: controllers, and the workloads that try them. Pure, but for the reading of workload files."""
