"""Training as a program does it: runs that can be stopped and resumed.

Begin with `run.train`. Callbacks act between the steps, `strategies` and `workers`
spread a step over devices and machines, `losses`, `schedule` and `optimizer` are §5.3
and §5.4 of the paper.
"""
