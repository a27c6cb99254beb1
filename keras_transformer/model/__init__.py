"""The Transformer as a `keras.Model`, its train step, and the cost of training.

Begin reading with `transformer`, Figure 1 of the paper. `train_step` has the steps of
`fit` and `evaluate` (§5), `cost` counts the floating-point operations of Table 2.
"""
