"""Several nodes in one process: who leads what, and what each of them answers."""
