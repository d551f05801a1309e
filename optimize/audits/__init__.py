"""Audits of a judge: preferences, use of the scale, self-consistency, injection probes."""
