"""The answer of a gate, one renderer per format."""
