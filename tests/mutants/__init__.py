"""Mutants: small source edits that break an algorithm, each of which a check must notice.

A *check* (`subject.Check`) is a promise of an algorithm file. It lets the file's `train` run for a
few turns in a `trial.Trial`, which keeps what happened and what changed, and computes each update
again by the definitions of the paper: with torch's own distributions and optimisers, with sums
written out, without the worker's kit.

A *mutant* (`subject.Mutant`) is a mistake that a person could make, with the checks that have to
notice it. An *edit* (`edits.Edit`) is a mistake made by rule; all checks of its file look at it.
What breaks nothing is `harmless`, and says why. A *learning run* (`learning.Learning`) trains for a
short time and has to beat the untrained policy.

`families` has a module for each family of algorithms: its checks, mutants, learning runs.
`test_promises`, `test_mutants` and `test_edits` run what is quick, `prove` everything.
"""
