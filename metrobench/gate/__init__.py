"""Rules over records: is this no worse than the baseline? Pure: no I/O, no clock."""
