"""A local page to play with: pick a graph and a method, and see what the theory says of it."""
