"""What every test shares: the two Hypothesis profiles.

`fast` draws the same examples on every run, so a red test is red for everybody; `deep` draws new ones and many more.
Choose with HYPOTHESIS_PROFILE=deep. Neither has a deadline: no test may depend on how busy the machine is.
"""

import os

from hypothesis import settings

settings.register_profile("fast", derandomize=True, database=None, deadline=None, max_examples=100)
settings.register_profile("deep", database=None, deadline=None, max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
