"""`python -m metrobench`."""

from metrobench.cli.main import main

main()
