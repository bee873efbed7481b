"""What several seeds say together: aggregates, intervals, comparisons. Pure, on NumPy arrays.

Everything here treats a seed as one observation, never an episode: episodes of one policy say how
one training went, and only other seeds say how the next one will go.
"""
