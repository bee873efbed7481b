"""What the tests share: a real daemon in a home of its own, and workers that misbehave."""
