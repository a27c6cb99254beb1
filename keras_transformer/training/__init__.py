"""Training as a program does it: runs that can be stopped and resumed.

Begin with `run.train`: `run_setup` prepares it, `run_callbacks` says what happens
between the steps, `run_options` has the options with their defaults. `strategies` and
`workers` spread a step over devices and machines; `losses`, `schedule` and `optimizer`
are §5.3 and §5.4 of the paper.
"""
