"""Audits of a judge: what else moves its scores, crowding, consistency, injection probes."""
