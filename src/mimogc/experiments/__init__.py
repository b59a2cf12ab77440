"""The experiments of the paper: a run, a study, its storage and the engine that computes it."""
