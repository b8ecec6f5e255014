"""Lets torchvision be imported beside the CPU torch, as `sitecustomize` in a folder of its own on PYTHONPATH.

Its wheel is built for CUDA, so its operators do not load and the import ends in `torchvision::nms does not exist`. They
are declared before; nothing of what is tested calls them.
"""

from __future__ import annotations

import sys
from typing import Any


class _Declare:
    library: Any = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torchvision" and self.library is None:
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                self.library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


sys.meta_path.insert(0, _Declare())  # type: ignore[arg-type]
