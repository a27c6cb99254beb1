"""Shared code of the programs in `bin/` and `export/`; only programs import it.

Begin with `programs.run`, which every program calls: flags, one-line errors, the JSON
summary. `flags` has the groups of flags that several programs define.
"""
