"""A run, what a study is, storage, scheduling and checkpoints: machinery that knows no study."""
