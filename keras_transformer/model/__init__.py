"""The Transformer as a `keras.Model`, how a step trains it, and what that costs.

Begin with `transformer`, Figure 1 of the paper; `train_step` has what `fit` and
`evaluate` do with it (§5), `cost` the floating-point operations of Table 2.
"""
