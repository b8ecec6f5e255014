"""What a bounded KV cache costs in answers: questions asked at known ages of long sessions, policy by policy."""
