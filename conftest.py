"""How much Hypothesis tries, for the tests of both import roots.

`check` is what every run uses: few examples and always the same ones, so that the same commit gives the same answer.
`thorough` (`make oracle`) searches for the unexpected: many examples, new ones each time; a failure prints the line
that repeats it. Neither has a deadline: a busy machine is not a bug.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "check", max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=2000, print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("check")
