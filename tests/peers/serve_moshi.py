"""The unmodified `moshi.server` on a CPU: torch.cuda.synchronize(), the one call that fails there, does nothing."""

import runpy
import sys

import torch

torch.cuda.synchronize = lambda *_, **__: None
sys.argv[0] = "moshi.server"
runpy.run_module("moshi.server", run_name="__main__", alter_sys=True)
