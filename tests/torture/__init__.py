"""The torture: random plans and maps against random faults, judged by a model that shares no code with gpulane.

What gpulane promises is taken from `docs/`; what it did is read from documented files (`journal.jsonl`, outputs,
`failed.jsonl`, parts), from what jobs noted about themselves, and from `/proc`. `./x torture --help` says how to run
the torture.
"""
