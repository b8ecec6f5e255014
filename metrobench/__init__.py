"""metrobench: how many live conversations a real-time speech deployment holds, for how long, and how it fails."""

__version__ = "0.1.0"
