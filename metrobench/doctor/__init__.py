"""Can this machine measure? One small file per check: a thin reader, and a pure judgement of what it read."""
