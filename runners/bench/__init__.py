"""Benchmarks: data, runs that survive being killed, scores by the official rule and by a judge, reports, exports."""
