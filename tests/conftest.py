"""Its place here makes the helper modules of this folder importable from every test."""
