"""Questions asked aloud at known ages of long sessions, against any endpoint, and what became of the answers."""
