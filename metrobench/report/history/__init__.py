"""Metrics of many records over time, one renderer per format."""
