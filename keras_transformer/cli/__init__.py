"""Shared code of the programs in `bin/` and `export/`; only programs import it.

Begin with `programs.run`, which every program calls: flags, one-line errors, the JSON
summary. The other modules define flags that several programs have.
"""
