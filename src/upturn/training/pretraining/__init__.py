"""Pre-training of the shipped models from scratch: tokenizers, schedules and demonstrations.

A ``Course`` describes one model; ``build.pretrain`` runs its phases, each step a pure function of its number. Not
here: the trainer (``optimisation``), evaluation and the model card (``upturn.loop``). Start with ``course``, then
``office_course`` (the schedule of ``nano``) and ``office_walks`` (its demonstrations).
"""

from upturn.training.pretraining.build import new_model, pretrain
from upturn.training.pretraining.course import Course
from upturn.training.pretraining.courses import COURSES, course_named
from upturn.training.pretraining.errands_course import ERRANDS
from upturn.training.pretraining.office_course import OFFICE
from upturn.training.pretraining.phase import Phase

__all__ = ["COURSES", "ERRANDS", "OFFICE", "Course", "Phase", "course_named", "new_model", "pretrain"]
