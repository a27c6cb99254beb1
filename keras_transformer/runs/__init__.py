"""A run on disk: what training writes and every other program reads.

Begin with `model_dir`, the folder of a run. `checkpoints` writes and reads its states,
`averaging` makes the mean of several (§6.1), `checkpoint_watcher` waits for new ones.
"""
