"""The endpoints for whole tasks: submit, get, list, cancel."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, JsonValue

from upturn.dialects import RequestError
from upturn.gateway.access import Guard
from upturn.gateway.http import headers_of
from upturn.gateway.openapi import Wire, errors
from upturn.loop.online import Client, TaskQueue, new_task_id
from upturn.pool import MOST_TAGS
from upturn.pool.calls import Submission, SubmissionState
from upturn.records import Task, Turn


class TaskBody(Wire):
    """A task for the agents that Upturn runs."""

    instruction: Annotated[str, Field(min_length=1, max_length=100_000)]
    family: Annotated[str, Field(min_length=1, max_length=200)] = "general"
    level: Annotated[int, Field(ge=1, le=9999)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    context: dict[str, JsonValue] = Field(default_factory=dict)
    """Further data for the environment."""
    episode: Annotated[str, Field(max_length=200)] | None = None
    tags: Annotated[list[str], Field(max_length=MOST_TAGS)] = Field(default_factory=list)
    """By which its records are selected and counted later."""
    id: Annotated[str, Field(pattern=r"^[\w.:/-]+$", max_length=200)] | None = None
    """Your id, for retries. Without it, every request is another task."""


class TurnEntry(BaseModel):
    """One turn of an agent."""

    observation: str
    text: str
    input_tokens: int | None = None
    """Read by the agent's calls of models in this turn; None = there is none, or a local model answered it."""
    output_tokens: int | None = None


class TaskSummary(BaseModel):
    """A submitted task and how far it is."""

    id: str
    state: SubmissionState
    reason: str
    """Why it failed or was cancelled."""
    instruction: str
    family: str


class TaskEntry(TaskSummary):
    """A submitted task with its result."""

    agent_version: str | None = None
    """None = no agent has done it."""
    outcome: str | None = None
    """How the agent's work ended; None = no agent has done it."""
    error: str = ""
    """Why its work broke off; empty = it did not."""
    verdict: Literal["success", "failure", "missing"] | None = None
    """None = not evaluated."""
    score: float | None = None
    input_tokens: int | None = None
    """Read by all model calls, cached ones included; None = it has not run, or the tokens are unknown."""
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    is_usage_estimated: bool = False
    """True = a model's server did not report all tokens."""
    cost_usd: float | None = None
    """At the prices of now; None = it has not run, its agent has no price, or the tokens are unknown."""
    turns: list[TurnEntry] | None = None
    """None = it has not run."""


class TaskList(BaseModel):
    """Your latest tasks, the latest first."""

    data: list[TaskSummary]


def task_routes(queue: TaskQueue | None, guard: Guard) -> APIRouter:
    """Returns the endpoints; without a queue they answer that no environment is configured."""
    routes = APIRouter(tags=["tasks"])

    def client_of(request: Request) -> Client:
        return guard.client(request.scope, "call")

    def open_queue() -> TaskQueue:
        if queue is None:
            raise RequestError(
                "this server runs no tasks; configure an [environment] and an agent that acts in it",
                status=404,
                code="no_environment",
            )
        return queue

    @routes.post("/v1/tasks", status_code=202, responses=errors(400, 401, 403, 404, 409, 413, 429))
    async def submit(body: TaskBody, request: Request) -> TaskEntry:
        """Submit a task; it is stored when this returns, and runs soon."""
        tasks, permitted = open_queue(), guard.permit(headers_of(request.scope), "call")
        client = permitted.client
        guard.admit(permitted.caller)
        task = Task(
            id=body.id or new_task_id(),
            instruction=body.instruction,
            family=body.family,
            environment=tasks.environment,
            level=body.level,
            seed=body.seed,
            tenant=client.tenant,
            context=body.context,
            episode=None if body.episode is None else client.episode_id(body.episode),
        )
        return _with_result(tasks, await tasks.submit(task, client, tags=body.tags))

    @routes.get("/v1/tasks", responses=errors(400, 401, 403, 404))
    async def listing(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
        state: SubmissionState | None = None,
    ) -> TaskList:
        """List your latest tasks, without their results."""
        client, states = client_of(request), () if state is None else (state,)
        submitted = await asyncio.to_thread(open_queue().submitted, client, limit=limit, states=states)
        return TaskList(data=[TaskSummary(**_summary(submission)) for submission in submitted])

    @routes.post("/v1/tasks/{task:path}/cancel", responses=errors(401, 403, 404))
    async def cancel(task: str, request: Request) -> TaskEntry:
        """Cancel a task that is still queued; one that runs or has run is not changed."""
        tasks = open_queue()
        return _with_result(tasks, await tasks.cancel(task, client_of(request)))

    @routes.get("/v1/tasks/{task:path}", responses=errors(401, 403, 404))
    async def get(task: str, request: Request) -> TaskEntry:
        """Show a task with its result."""
        tasks = open_queue()
        return _with_result(tasks, tasks.find(task, client_of(request)))

    return routes


def _summary(submission: Submission) -> dict[str, Any]:
    task = submission.task
    return {
        "id": task.id,
        "state": submission.state,
        "reason": submission.reason,
        "instruction": task.instruction,
        "family": task.family,
    }


def _with_result(queue: TaskQueue, submission: Submission) -> TaskEntry:
    """Returns the task with what an agent did, if it has run."""
    entry, experience = TaskEntry(**_summary(submission)), queue.experience(submission)
    if experience is None:
        return entry
    trajectory, evaluation = experience.trajectory, experience.evaluation
    entry.agent_version = trajectory.agent_version
    entry.outcome, entry.error = trajectory.outcome, trajectory.error
    entry.turns = [_turn(turn) for turn in trajectory.turns]
    entry.cost_usd = queue.cost_usd(submission)
    used = trajectory.usage
    if used.prompt_tokens or used.written_tokens:
        entry.input_tokens, entry.output_tokens = used.prompt_tokens, used.written_tokens
        entry.cached_input_tokens = min(trajectory.cached_tokens, used.prompt_tokens)
        entry.is_usage_estimated = trajectory.is_usage_estimated
    if evaluation is not None:
        entry.verdict, entry.score = evaluation.verdict, evaluation.score
    return entry


def _turn(turn: Turn) -> TurnEntry:
    used = turn.usage
    return TurnEntry(
        observation=turn.observation.text,
        text=turn.text,
        input_tokens=None if used is None else used.prompt_tokens,
        output_tokens=None if used is None else used.written_tokens,
    )
