"""The sections of ``upturn.toml`` except those of training and release.

``docs/configuration.md`` is generated from the docstrings of classes and fields. Single values are validated here;
``contradiction`` checks combinations of settings.
"""

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from upturn.config.sampling import SamplingSettings
from upturn.config.settings import (
    Count,
    FilePath,
    ImportPath,
    Name,
    Positive,
    Probability,
    Settings,
    Share,
    Url,
    WholeNumber,
    matches,
    report_unused,
    settings,
)
from upturn.config.upstream import UpstreamConfig

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+\Z")
"""A model's name on the Hugging Face hub, ``owner/name``."""


@settings
class RunConfig(Settings):
    """Seed, threads, device and output folder of a run."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Random seed of the run; all other seeds are derived from it."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None  # many thousands only end in a lack of memory
    """Number of threads for torch. Unset = one per usable core, at most the container's CPU quota."""
    device: Annotated[
        str, matches(r"auto|cpu|mps|cuda(:[0-9]+)?", "auto, cpu, mps, cuda or a card such as cuda:1")
    ] = "auto"
    """Device that models are trained and sampled on: ``cpu``, ``mps``, ``cuda``, or a certain card such as
    ``cuda:1``. ``auto``: the first CUDA device, else MPS, else the CPU. Several processes that train together
    (docs/training.md) use one CUDA device each, with ``auto`` or ``cuda``."""
    directory: FilePath = "runs"
    """Folder for the folders of runs. Relative paths in this file start at the current directory."""


@settings
class TrackerConfig(Settings):
    """Services that receive the metrics of training, in addition to TensorBoard's files. Keys and addresses are in
    the environment variables of their clients."""

    use: tuple[Literal["wandb", "mlflow", "trackio"], ...] = ()
    """The services; each needs its extra, such as ``upturn[wandb]``. Empty = nothing is sent."""
    project: Name = "upturn"
    """Project, in MLflow the experiment, of all runs."""
    name: str = ""
    """First part of the names of runs; the training step follows. Empty = the name of the run's folder."""

    def problems(self) -> Iterator[str | None]:
        """Yields settings without effect, and services named twice."""
        cure = "with use=(); name a service in use, or leave it out"
        yield report_unused(not self.use and self.project != "upturn", f"project={self.project!r}", cure)
        yield report_unused(not self.use and self.name != "", f"name={self.name!r}", cure)
        twice = sorted({name for name in self.use if self.use.count(name) > 1})
        yield f"use names {', '.join(map(repr, twice))} twice; name each service once" if twice else None


def is_database_url(path: str) -> bool:
    """Whether the path of a pool is the URL of a database server, and not a file."""
    return "://" in path


@settings
class CheckpointConfig(Settings):
    """Signed checkpoints of the pool's audit log, which services and runs write while they have the pool open."""

    folder: FilePath = ""
    """Folder of the checkpoints and their key, which are made when there are none. Empty = no checkpoints; `upturn
    audit checkpoint` writes single ones."""
    entries: Count = 1_000
    """New entries after which a checkpoint is written."""
    seconds: Positive = 300.0
    """Seconds after which a checkpoint is written if there are new entries. One is also written at the end."""

    def problems(self) -> Iterator[str | None]:
        """Yields settings without effect."""
        cure = "without folder; name a folder, or leave it out"
        yield report_unused(not self.folder and self.entries != 1_000, f"entries={self.entries!r}", cure)
        yield report_unused(not self.folder and self.seconds != 300.0, f"seconds={self.seconds!r}", cure)


@settings
class RetentionRule(Settings):
    """Bounds of the stored trajectories of a tenant, with their evaluations and tokens. The gateway every hour, and
    `upturn pool prune`, delete the oldest ones beyond them; what a snapshot or a version was made from is kept."""

    tenant: str = ""
    """Tenant. Empty = each tenant without a rule of its own, separately."""
    days: Positive | None = None
    """Largest age. Unset = no bound."""
    megabytes: Positive | None = None
    """Largest size of texts and tokens together. Unset = no bound."""

    def problems(self) -> Iterator[str | None]:
        """Yields a rule without a bound."""
        yield "a rule needs days or megabytes" if self.days is None and self.megabytes is None else None


@settings
class RecallEmbeddings(Settings):
    """A server whose embeddings find similar tasks, in place of their words (docs/similar.md)."""

    url: Annotated[str, Field(pattern="^https?://")]
    """Base URL of a server with ``/embeddings`` in OpenAI's form, such as ``https://api.example.com/v1``."""
    model: Annotated[str, Field(min_length=1)]
    """Name of the model there. Embeddings are stored by it: another model needs another name."""
    api_key_env: str = ""
    """Environment variable with the API key. Empty = no key is sent, unless ``api_key_file`` names one."""
    api_key_file: FilePath = ""
    """File with the API key as its content, in place of ``api_key_env``; relative to the folder of the
    configuration file. It is read at the start."""
    timeout_seconds: Positive = 30.0
    """Longest time of a request, which has up to 64 texts; failures that may pass are tried three times."""
    dimensions: Count | None = None
    """Length of the embeddings to ask for. Unset = as the model has; not all servers know the parameter."""


@settings
class PoolConfig(Settings):
    """The pool, the database of tasks, trajectories, evaluations and all other records."""

    path: FilePath = ""
    """Database file, or URL of a PostgreSQL database (``postgresql://user@host/database``, without a password),
    which several runs may share. Empty = ``pool.db`` in the run's folder."""
    tenant: Name = "default"
    """Tenant that all records of the run belong to. Reads never cross tenants."""
    checkpoints: CheckpointConfig = CheckpointConfig()
    """Signed checkpoints of the audit log."""
    retention: tuple[RetentionRule, ...] = (RetentionRule(days=365.0, megabytes=10_000.0),)
    """Bounds of what is kept. Unset = 365 days and 10,000 MB of each tenant. Empty = everything is kept."""
    imported_families: tuple[Name, ...] = ()
    """Families of imported conversations that supervised and preference training use, besides the trained ones."""
    embeddings: RecallEmbeddings | None = None
    """The server of embeddings that find similar tasks. Unset = they are found by their words."""
    learn_from: tuple[Name, ...] = ()
    """Other tenants whose anonymised successes supervised training uses besides those of ``tenant``. Each must have
    opted in (docs/privacy.md). What is trained serves ``tenant`` only."""

    def problems(self) -> Iterator[str | None]:
        """Yields what is wrong with a URL, without the URL, which may have a password."""
        tenants = [rule.tenant for rule in self.retention]
        twice = sorted({tenant for tenant in tenants if tenants.count(tenant) > 1})
        yield f"retention has several rules for tenant {twice[0]!r}; keep one" if twice else None
        if self.tenant in self.learn_from or len(set(self.learn_from)) < len(self.learn_from):
            yield f"learn_from must name each tenant other than {self.tenant!r} once, got {self.learn_from!r}"
        if not is_database_url(self.path):
            return
        scheme = self.path.partition("://")[0]
        if scheme not in ("postgresql", "postgres"):
            yield f"path must be a file or start with postgresql://, got {scheme + '://…'!r}"
        try:
            parts = urlsplit(self.path)
            names = [name for name, _ in parse_qsl(parts.query)]
        except ValueError:
            yield "path is no URL that can be read; write postgresql://user@host:port/database"
            return
        if parts.password is not None or any("password" in name for name in names):
            # the configuration is hashed, saved with each run, and shown
            yield "path must have no password; put it into the variable PGPASSWORD or the file ~/.pgpass"


@settings
class ReadinessConfig(Settings):
    """Requirements on the pool's contents before a training run starts."""

    points: Count = 5000
    """Minimum number of trajectories that pass every quality check."""
    clean_share: Share = 0.95
    """Minimum share of trajectories that pass every quality check."""
    categories: Count = 5
    """Minimum number of task families with a trajectory that passes every quality check."""
    privacy: bool = True
    """Whether personal data in a trajectory prevents training."""
    decisions: WholeNumber = 1
    """Minimum number of routing decisions."""


@settings
class ContextConfig(Settings):
    """The context window of an agent of kind local_model or endpoint. When the context would exceed ``tokens``, the
    history is shortened to ``low_mark``: the latest turns stay complete, older turns become summaries, and the
    turns least relevant to the instruction and the latest observation are removed."""

    tokens: Count | None = None
    """Maximum length of the context in tokens, including the action that is written next. Unset = the history is
    never shortened. For an endpoint it is estimated at three bytes per token."""
    window_turns: Count = 8
    """Number of latest turns that stay complete, if they fit."""
    low_mark: Probability = 0.6
    """Share of ``tokens`` to which the history is shortened. Each shortening starts a new training row and
    invalidates prompt caches; a lower value makes it rarer."""
    observation_tokens: Count | None = None
    """Maximum tokens of one observation; a note states how much was cut off. Unset = a quarter of ``tokens``."""
    summary_tokens: Count = 48
    """Maximum tokens of an observation before the latest ``window_turns`` turns; the action stays complete."""

    def longest_observation(self, tokens: int) -> int:
        """Returns the maximum tokens of one observation in a context of ``tokens`` tokens."""
        # A quarter, like 32 of 128 thousand tokens in the design of the office.
        return self.observation_tokens or max(1, tokens // 4)


@settings
class AgentSource(Settings):
    """Where an agent comes from."""

    name: Name
    """Name of the agent in decisions and reports."""
    kind: Literal["local_model", "rule_based", "callable", "endpoint", "program"]
    """``local_model``: weights that Upturn runs and trains. ``rule_based``, ``callable``: Python code.
    ``endpoint``: any OpenAI-compatible server; routed and recorded, not trained. ``program``: your own function or
    command, which calls a model by URL: a local one, which is trained, or one at an endpoint (docs/programs.md)."""
    model: FilePath = ""
    """For local_model, and for program without ``url``: ``nano`` (ships with Upturn), a folder, or a Hugging Face
    name such as ``Qwen/Qwen2.5-0.5B-Instruct`` (docs/models.md). For endpoint, and for program with ``url``: the
    model's name on the server."""
    url: Url = ""
    """For endpoint and program: base URL, such as ``http://localhost:8000/v1``. Empty for program = ``model`` is a
    local one."""
    import_path: ImportPath = ""
    """For rule_based, callable and program: ``module:attribute`` of the Python function."""


@settings
class AgentEligibility(AgentSource):
    """Which work an agent may get."""

    environments: tuple[str, ...] = ()
    """Environments that the agent can act in. Empty = any."""
    load_cap: Count | None = None
    """Maximum number of tasks in flight. Unset = no limit."""
    supports: tuple[Literal["tools", "images", "schema"], ...] = ("tools", "images", "schema")
    """What model calls may ask of the agent: tools, images, an output of a JSON schema. Others go elsewhere."""
    max_input_tokens: Count | None = None
    """Largest prompt of a model call that the agent gets, estimated at four bytes per token. Unset = no limit."""
    region: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_.-]*)?$", max_length=64)] = ""
    """Where the agent runs, for tenants and routes that allow some ``regions`` only. Empty = unknown, which none of
    these allows."""
    price: str = ""
    """Name of the agent's ``[prices.NAME]`` table. Empty = the one with the name of ``model``, if there is any."""


DEFAULT_CONTEXT_TOKENS = 512
"""Maximum context of a local agent when ``max_tokens`` is unset; bounds the cache's memory. The meaning of
``environment.max_tokens`` and docs/models.md name it."""
_Bytes = Annotated[int, Field(ge=2**20, le=2**50)]
PARALLEL = 16
"""Attempts of a program at a time."""


@settings
class SandboxLimits(Settings):
    """What one command in a sandbox may use."""

    max_processes: Count = 256
    """Processes and threads together."""
    memory_bytes: _Bytes = 4 * 2**30
    """Address space of each process. Node.js with WebAssembly reserves more than it uses: give it 32 GiB."""
    file_bytes: _Bytes = 2**28
    """Size of each file that it writes."""
    temporary_bytes: _Bytes = 2**26
    """Of ``/tmp``, which is empty at each start; ``/dev/shm`` has a quarter of it."""
    max_open_files: Count = 1024
    """Of each process."""


@settings
class ProgramConfig(Settings):
    """How a program runs; ``[agents.program]`` in the table of its agent."""

    parallel: Count = PARALLEL
    """Maximum number of attempts at a time."""
    models: dict[str, str] = field(default_factory=dict)
    """Further models that the program names in its calls: the name there, and the name of the agent that answers,
    such as ``{ "gpt-5" = "helper" }``. Only the program's own ``model`` is trained."""
    own_process: bool = False
    """For a function: each attempt has a process of its own, forked from one that has imported the module."""
    sandbox: bool = False
    """For a command: it runs in a sandbox, without network but for its model calls, and without files of this
    machine but its folder, read-only ones of the system and those of the command (docs/sandbox.md)."""
    readable: tuple[FilePath, ...] = ()
    """More files and folders that it may read in the sandbox."""
    limits: SandboxLimits = SandboxLimits()
    """Of the sandbox."""


@settings
class AgentConfig(AgentEligibility):
    """An agent that tasks can be routed to; one ``[[agents]]`` table per agent."""

    prompt: str = ""
    """For local_model and endpoint: system prompt. Empty = no system prompt."""
    temperature: Annotated[float, Field(ge=0, le=5)] = 1.0
    """For local models and endpoint: sampling temperature while serving. 0 = greedy."""
    sampling: SamplingSettings = SamplingSettings()
    """For local models: further options of sampling while serving."""
    template_options: dict[str, bool | int | float | str] = field(default_factory=dict)
    """For local models: variables of the chat template, such as ``{ enable_thinking = false }``. Empty = the
    template's defaults."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """For local models: data type of the weights in memory. ``bfloat16`` needs half of the memory; the agent can
    only be trained with ``optimiser.precision = "bfloat16_weights"``."""
    command: tuple[str, ...] = ()
    """For program: the command with its arguments, in place of a function."""
    program: ProgramConfig = ProgramConfig()
    """For program: how it runs."""
    api_key_env: str = ""
    """For endpoint and program: name of the environment variable with the API key. Empty = no key is sent,
    unless ``api_key_file`` names one."""
    api_key_file: FilePath = ""
    """For endpoint and program: file with the API key as its content, in place of ``api_key_env``; relative to the
    folder of the configuration file. It is read at the start and at each reload."""
    timeout_seconds: Positive | None = None
    """For endpoint and program: seconds that one try of a call may take. Unset = 60."""
    retries: WholeNumber | None = None
    """For endpoint and program: further tries after a timeout or a transient failure. Unset = 2."""
    tools: Literal["auto", "native", "text"] = "auto"
    """For endpoint: how the model gets the environment's tools. ``native``: as tool definitions, which it calls.
    ``text``: in the system prompt, with its actions as text. ``auto``: ``native`` as long as the environment
    describes tools and the server does not refuse them, otherwise ``text``."""
    context: ContextConfig = ContextConfig()
    """Context window of the agent."""
    examples: Annotated[int, Field(ge=0, le=16)] = 0
    """For local_model, endpoint and callable: number of successes at similar tasks, found in the pool, that a task
    begins with. 0 = none. Without effect on the gateway's model calls (docs/similar.md)."""
    upstream: UpstreamConfig = UpstreamConfig()
    """For endpoint: calls of the gateway to the server."""

    @property
    def has_local_model(self) -> bool:
        """Whether Upturn runs its model, and can train it."""
        return self.kind == "local_model" or (self.kind == "program" and not self.url)


@settings
class Limits(Settings):
    """Limits of one trajectory."""

    max_turns: Count = 16
    """Maximum number of actions in one trajectory."""
    max_tokens: Count | None = None
    """Maximum tokens of context in one trajectory, including prompt and observations. Unset = 512 for agents of
    kind local_model, whose cache it bounds, and no limit for other agents."""
    max_action_tokens: Count = 64
    """Maximum tokens in one action."""
    max_equal_calls: Annotated[int, Field(ge=2)] | None = None
    """Number of equal calls with equal results after which a trajectory ends, as at ``max_turns``: it goes round in
    circles. Not for environments in which such calls have a use, such as waiting. Unset = no limit."""
    call_repairs: Literal["execute", "refuse"] = "execute"
    """For agents of kind local_model with a chat template: calls that are written almost right, such as in a code
    block or without their closing tag. ``execute``: they are made; the repair is recorded and counted. ``refuse``:
    they are errors, as are calls that cannot be repaired, so that training rewards the exact format only."""
    max_seconds: Positive | None = None
    """Maximum wall-clock seconds of one trajectory. At the limit it ends even during an action of the agent, whose
    turn is then not recorded; an environment's step is never interrupted. Unset = no limit."""


@settings
class EnvironmentConfig(Limits):
    """The environment in which the agents act, and the limits of a trajectory."""

    name: Annotated[str, Field(min_length=1)] = "office"
    """Name of a registered environment, or ``module:name`` of a kit or of a function that returns one."""
    verifier: ImportPath = ""
    """``module:factory`` of the verifier that evaluates trajectories. Empty = the environment's verifier."""


@settings
class TaskConfig(Settings):
    """The tasks that the agents work on."""

    file: FilePath = ""
    """JSON Lines file with training and held-out tasks. Empty = the environment generates the tasks from the seed.
    For a training run, one training task in eight of the file is reserved for model selection (docs/loop.md)."""
    families: tuple[str, ...] = ()
    """Task families that the environment generates. Empty = all."""
    train_families: tuple[str, ...] = ()
    """Task families to train on and to evaluate, a subset of the served families. Empty = all served families."""
    levels: tuple[Count, ...] = ()
    """Levels of difficulty that the environment generates. Empty = all."""
    count: Count = 5000
    """Number of tasks that are routed to the agents in each cycle."""
    heldout_count: Count = 400
    """Number of held-out tasks, which are never trained on; versions are compared on them. At least 30 for a
    training run."""


@settings
class LoopConfig(Settings):
    """The improvement loop (``upturn loop``)."""

    cycles: Count = 1
    """Number of cycles of serving, training, validation and release."""
    improve: str = ""
    """Name of the agent to train. Empty = the only agent of kind local_model."""
    train: tuple[Literal["sft", "grpo"], ...] = ("sft", "grpo")
    """Algorithms that train a candidate in each cycle. Empty = the loop only routes and records. ``upturn train``
    ignores it."""


@settings
class ScheduleConfig(Settings):
    """When ``upturn loop run`` begins the next cycle. With this section, or with ``--forever``, the loop goes on
    until it is stopped, or its tasks end. ``loop.cycles`` then has no effect."""

    every_hours: Positive | None = None
    """Hours from the beginning of a cycle to that of the next. Unset = the next begins when one has ended."""
    after_outcomes: Count | None = None
    """Number of outcomes (verdicts, feedback) that routing must have learned since a cycle began before the next
    begins. Unset = any number."""
