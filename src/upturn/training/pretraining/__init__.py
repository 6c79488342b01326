"""Pre-training of the shipped model from scratch: tokenizer, schedule and demonstrations.

A ``Course`` describes one model; ``build.pretrain`` runs its phases, each step a pure function of its number. Not
here: the trainer (``optimisation``), evaluation and the model card (``upturn.loop``). Start with ``course``, then
``office_course`` (the schedule of ``nano``) and ``office_walks`` (its demonstrations).
"""

from upturn.training.pretraining.build import new_model, pretrain
from upturn.training.pretraining.course import Course
from upturn.training.pretraining.courses import COURSES, course_named
from upturn.training.pretraining.demonstration import PRETRAINING_STREAM, Step, Walk, walked
from upturn.training.pretraining.office_course import OFFICE
from upturn.training.pretraining.phase import Phase
from upturn.training.pretraining.tokenizer import new_tokenizer, said

__all__ = [
    "COURSES",
    "OFFICE",
    "PRETRAINING_STREAM",
    "Course",
    "Phase",
    "Step",
    "Walk",
    "course_named",
    "new_model",
    "new_tokenizer",
    "pretrain",
    "said",
    "walked",
]
