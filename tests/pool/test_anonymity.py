from collections.abc import Callable
from dataclasses import replace

from upturn.pool.quality import anonymity
from upturn.pool.reader import Experience
from upturn.records import Evaluation, JsonValue, Observation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def _points(make_point: MakePoint, *contexts: dict[str, JsonValue]) -> list[Experience]:
    points = [make_point(str(number)) for number in range(len(contexts))]
    return [
        Experience(replace(task, context=context), trajectory, evaluation)
        for (task, trajectory, evaluation), context in zip(points, contexts, strict=True)
    ]


def test_k_is_the_size_of_the_smallest_group(make_point: MakePoint) -> None:
    lyon: dict[str, JsonValue] = {"user": {"homeCity": "Lyon", "age": 31}, "order": 7}
    bern: dict[str, JsonValue] = {"city": "Bern", "age": 31}
    measured = anonymity(_points(make_point, lyon, {"city": "lyon ", "age": "31"}, bern, {"n": 1}))
    assert (measured.tasks, measured.k, measured.unique) == (3, 1, 1)
    assert measured.rarest == (((("age", "31"), ("place", "bern")), 1), ((("age", "31"), ("place", "lyon")), 2))


def test_masked_values_are_no_quasi_identifiers(make_point: MakePoint) -> None:
    measured = anonymity(_points(make_point, {"dob": "1980-03-12"}, {"dob": "1981-03-12"}))
    assert (measured.tasks, measured.k) == (0, None)


def test_observations_that_are_json_count(make_point: MakePoint) -> None:
    (point,) = _points(make_point, {})
    trajectory = replace(point.trajectory, final_observation=Observation('{"address": {"zip": "69001"}}'))
    measured = anonymity([point._replace(trajectory=trajectory)])
    assert measured.rarest == (((("postal code", "69001"),), 1),)
