"""The job after: notes that it runs."""

import os

with open(os.environ["GPULANE_OUT"] + "/ran", "w"):
    pass
