"""Planted bugs: each breaks one promise of the production code, and the simulator must catch it (a checker that never
failed is not yet a checker).

`catalog` lists them, `importing` puts one under the production code of this operating system process.
"""
