"""The courses of the shipped models, by name."""

from collections.abc import Mapping

from upturn.errors import UnknownNameError
from upturn.training.pretraining.course import Course
from upturn.training.pretraining.office_course import OFFICE

COURSES: Mapping[str, Course] = {course.model: course for course in (OFFICE,)}


def course_named(model: str) -> Course:
    """The course of a shipped model, or UnknownNameError listing the known ones."""
    if model not in COURSES:
        raise UnknownNameError(f"no course makes a model {model!r}; known: {', '.join(COURSES)}")
    return COURSES[model]
