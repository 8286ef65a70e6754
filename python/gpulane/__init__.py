"""What a job says to gpulane, and gets from it. Works, and does no harm, where no gpulane is.

    import gpulane

    config = gpulane.config()              # this job's config
    out = gpulane.out()                    # where its output belongs
    gpulane.log(step=10, loss=0.31)        # metrics; each is a sign of life
    gpulane.done()                         # the work is finished: an exit that hangs is ended and counts as success

    class Tagger(gpulane.Model):           # a model for `gpulane map`; see `gpulane.Model`
        def setup(self): ...
        def predict_batch(self, batch): ...
"""

from ._job import config, done, log, out
from ._model import Model

__all__ = ["Model", "config", "done", "log", "out"]
