"""Training on the device: environment, policy and update in one compiled program.

`environment` is what an environment offers, `classic_control` and `recall` are Gymnasium's and ours
in JAX, `registry` finds them by id, `batch` steps many of them, `normalize` scales what they give,
`learner` runs an algorithm in chunks, `pace` says how long a chunk is, `members` are the seeds and
settings that are trained at once (`sweeping` checks them without JAX), `devices` spreads them over
devices, `frames` shows the environments live.
"""
