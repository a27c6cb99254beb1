"""What the programs in `bin/` and `export/` share; only programs import it.

Begin with `programs.run`, which every program calls: flags, one-line errors, the JSON
summary. The other modules define flags that several programs have.
"""
