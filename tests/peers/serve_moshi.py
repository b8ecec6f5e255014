"""The unmodified `moshi.server` without a GPU: torch.cuda.synchronize(), its one call that fails there, does nothing."""

import runpy
import sys

import torch

torch.cuda.synchronize = lambda *_, **__: None
sys.argv[0] = "moshi.server"
runpy.run_module("moshi.server", run_name="__main__", alter_sys=True)
