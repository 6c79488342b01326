"""The tools of errands describe the parameters of its operations."""

from typing import Any

import pytest

from benchmarks.errands.environment import OPERATIONS
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.operation import OperationError, check_arguments
from benchmarks.errands.tools import errands_tools
from upturn.environments import tools_of
from upturn.environments.kit import DescribedKit, EnvironmentKit
from upturn.records import Action, JsonValue, Tool


def sample(schema: Any) -> JsonValue:  # Any: JSON
    """A value that the schema allows."""
    if "enum" in schema:
        value: JsonValue = schema["enum"][-1]
        return value
    if schema["type"] == "integer":
        return int(schema["maximum"])
    return {"such as B3": "B3", "a cell or a range such as A1:B4": "A1:B4"}.get(
        schema.get("description", ""), "ada"
    )


@pytest.mark.parametrize("tool", errands_tools(), ids=lambda tool: tool.name)
def test_operations_accept_the_parameters_of_their_tools(tool: Tool) -> None:
    operation = OPERATIONS[tool.name]
    arguments = {name: sample(schema) for name, schema in tool.properties.items()}
    check_arguments(operation, Action(tool.target, tool.operation, arguments))
    required = {name: arguments[name] for name in tool.required}
    check_arguments(operation, Action(tool.target, tool.operation, required))
    for name in required:
        incomplete = {key: value for key, value in required.items() if key != name}
        with pytest.raises(OperationError, match="is required"):
            check_arguments(operation, Action(tool.target, tool.operation, incomplete))
    for name, schema in tool.properties.items():
        limits: Any = schema
        if "maximum" in limits:
            with pytest.raises(OperationError, match="must be a full hour"):
                check_arguments(
                    operation, Action(tool.target, tool.operation, {**arguments, name: limits["maximum"] + 1})
                )
        if "enum" in limits:
            with pytest.raises(OperationError, match="must be one of"):
                check_arguments(operation, Action(tool.target, tool.operation, {**arguments, name: "nothing"}))


def test_kits_may_have_tools_or_not() -> None:
    kit = ErrandsKit()
    assert isinstance(kit, DescribedKit)
    assert [tool.name for tool in tools_of(kit)] == list(OPERATIONS)

    class Plain:
        name, families, verifier = kit.name, kit.families, kit.verifier
        environment, tasks = kit.environment, kit.tasks

    plain: EnvironmentKit = Plain()
    assert tools_of(plain) == ()
