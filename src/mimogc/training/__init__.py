"""One file per kind of training: graph regressors, node classifiers, many tiny layers at once."""
