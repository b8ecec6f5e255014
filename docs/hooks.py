"""What mkdocs does beside its own work: the vLLM plugin's README is a page, from the one place where it is kept."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

KVWINDOW = Path(__file__).parents[1] / "metrobench" / "kvwindow" / "README.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are kept elsewhere in the tree."""
    files.append(File.generated(config, "kvwindow.md", abs_src_path=str(KVWINDOW)))
    return files
