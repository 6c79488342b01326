"""How the shipped models are made: their tokenizers, their schedules, and the demonstrations of every step."""

from upturn.training.pretraining.build import new_model, pretrain
from upturn.training.pretraining.course import Course
from upturn.training.pretraining.courses import COURSES, course_named
from upturn.training.pretraining.errands_course import ERRANDS
from upturn.training.pretraining.office_course import OFFICE
from upturn.training.pretraining.phase import Phase

__all__ = ["COURSES", "ERRANDS", "OFFICE", "Course", "Phase", "course_named", "new_model", "pretrain"]
