"""Contradictions between settings, and settings without effect in the chosen combination.

No setting is ignored silently: each message names both sides. Only settings that differ from their defaults count,
so a saved configuration, which contains every setting, is accepted.
"""

from collections.abc import Iterator
from typing import Any

from upturn.config.api_key import keyed_settings
from upturn.config.combination import Contradiction, without_effect
from upturn.config.config import Config
from upturn.config.learning import OptimiserSettings, RolloutConfig
from upturn.config.metric import declared_metrics
from upturn.config.routing import FEATURE_POLICIES
from upturn.config.routing_contradiction import routing_contradictions
from upturn.config.section import AgentConfig, EnvironmentConfig
from upturn.config.settings import Settings, changed_settings

FEWEST_HELDOUT = 30
"""Minimum number of held-out tasks for a release, the default of ``validation.min_tasks``."""

_OF_CALLS = {"supports", "max_input_tokens"}
"""For agents that answer model calls."""
_OF_PROMPTS = {"prompt", "temperature", "context", "examples"}
_OF_SANDBOXES = {"readable", "limits"}
_OF_PROGRAMS = {"import_path", "command", "program"}
_SETTINGS_BY_KIND = {
    "local_model": {
        "model",
        "sampling",
        "template_options",
        "weights",
        *_OF_PROMPTS,
        *_OF_CALLS,
    },
    "endpoint": {
        "model",
        "url",
        "api_key_env",
        "api_key_file",
        "timeout_seconds",
        "retries",
        "tools",
        "upstream",
        *_OF_PROMPTS,
        *_OF_CALLS,
    },
    "program": {
        "model",
        "url",
        *_OF_PROGRAMS,
        "api_key_env",
        "api_key_file",
        "timeout_seconds",
        "retries",
        "upstream",
    },
    "local program": {"model", "temperature", "sampling", "template_options", "weights", *_OF_PROGRAMS},
    "callable": {"import_path", "examples", *_OF_CALLS},
    "rule_based": {"import_path", *_OF_CALLS},
}
_REQUIRED_BY_KIND = {
    "local_model": ("model",),
    "endpoint": ("url", "model"),
    "program": ("url", "model"),
    "local program": ("model",),
    "callable": ("import_path",),
    "rule_based": ("import_path",),
}
_ENGINE_SETTINGS = {
    "url",
    "dialect",
    "weights",
    "logprobs",
    "api_key_env",
    "api_key_file",
    "timeout_seconds",
    "max_length",
}
_UNUSED_BY_PLACE = {
    "process": {"workers", "address", "gpus_per_worker", "folder", *_ENGINE_SETTINGS},
    "ray": _ENGINE_SETTINGS,
    "engine": {"workers", "address", "gpus_per_worker"},
}


def contradictions(config: Config) -> list[Contradiction]:
    """Returns every contradiction in the configuration, in the order of its sections."""
    return [
        *_agents(config),
        *_environment(config),
        *_tasks(config),
        *routing_contradictions(config),
        *_training(config),
        *_precision(config),
        *_gateway(config),
        *_schedule(config),
        *_traffic(config),
        *_keys(config),
    ]


def _keys(config: Config) -> Iterator[Contradiction]:
    for name, settings in keyed_settings(config):
        if settings.api_key_env and settings.api_key_file:
            names = (f"{name}.api_key_env", f"{name}.api_key_file")
            yield Contradiction(names, f"{' and '.join(names)} both name the API key; set one of them")


def _agents(config: Config) -> Iterator[Contradiction]:
    names = [agent.name for agent in config.agents]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            settings = tuple(f"agents[{index}].name" for index, other in enumerate(names) if other == name)
            yield Contradiction(settings, f"{' and '.join(settings)} are both {name!r}; names must differ")
    if not any(agent.has_local_model for agent in config.agents):
        reason = "without an agent with a local model: no model runs here"
        yield from without_effect(config.run, "run", "agents", reason, names={"device"})
    for index, agent in enumerate(config.agents):
        yield from _agent(agent, f"agents[{index}]")
        yield from _other_models(config, agent, f"agents[{index}]")
        yield from _context(agent, config.environment, f"agents[{index}]")


def _agent(agent: AgentConfig, prefix: str) -> Iterator[Contradiction]:
    shown = "local program" if agent.kind == "program" and agent.has_local_model else agent.kind
    kind = f"{prefix}.kind = {agent.kind!r}" + (f" and no {prefix}.url" if shown == "local program" else "")
    for name in _REQUIRED_BY_KIND[shown]:
        if not getattr(agent, name):
            yield Contradiction((f"{prefix}.{name}", f"{prefix}.kind"), f"{kind} needs {prefix}.{name}; set it")
    if agent.kind == "program" and bool(agent.command) == bool(agent.import_path):
        settings = (f"{prefix}.import_path", f"{prefix}.command")
        yield Contradiction(settings, f"{kind} needs either {' or '.join(settings)}; set one of them")
    for name, other in (("sandbox", "command"), ("own_process", "import_path")):
        if getattr(agent.program, name) and not getattr(agent, other):
            settings = (f"{prefix}.program.{name}", f"{prefix}.{other}")
            yield Contradiction(settings, f"{settings[0]} = true needs {settings[1]}")
    if not agent.program.sandbox:
        section, reason = f"{prefix}.program", f"without {prefix}.program.sandbox = true"
        yield from without_effect(agent.program, section, f"{section}.sandbox", reason, names=_OF_SANDBOXES)
    unused = set().union(*_SETTINGS_BY_KIND.values()) - _SETTINGS_BY_KIND[shown]
    yield from without_effect(agent, prefix, f"{prefix}.kind", f"with {kind}; remove one of them", names=unused)


def _other_models(config: Config, agent: AgentConfig, prefix: str) -> Iterator[Contradiction]:
    """Models that a program names must be those of agents with a model."""
    answering = {member.name: member for member in config.agents}
    for name, other in agent.program.models.items():
        setting = f"{prefix}.program.models.{name}"
        member = answering.get(other)
        if member is None or member.kind not in ("local_model", "endpoint"):
            usable = ", ".join(m.name for m in config.agents if m.kind in ("local_model", "endpoint"))
            yield Contradiction(
                (setting, "agents"),
                f"{setting} = {other!r} is no agent of kind 'local_model' or 'endpoint'; those are: "
                f"{usable or 'none'}",
            )


def _context(agent: AgentConfig, limits: EnvironmentConfig, prefix: str) -> Iterator[Contradiction]:
    context, prefix = agent.context, f"{prefix}.context"
    tokens, observation = f"{prefix}.tokens", f"{prefix}.observation_tokens"
    if "context" not in _SETTINGS_BY_KIND[agent.kind]:
        return
    if context.tokens is None:
        yield from without_effect(context, prefix, tokens, f"without {tokens}")
        return
    budget = f"{tokens} = {context.tokens}"
    longest = context.longest_observation(context.tokens)
    if longest >= context.tokens:
        yield Contradiction(
            (observation, tokens), f"{observation} = {longest} has no effect with {budget}, which is not more"
        )
    elif context.summary_tokens >= longest:
        yield Contradiction(
            (f"{prefix}.summary_tokens", observation, tokens),
            f"{prefix}.summary_tokens = {context.summary_tokens} has no effect: with {budget} an observation "
            f"has at most {longest} tokens; lower it, or raise the others",
        )
    if longest + limits.max_action_tokens >= context.tokens:
        yield Contradiction(
            (tokens, observation, "environment.max_action_tokens"),
            f"{budget} has no room for an observation of {longest} tokens and "
            f"environment.max_action_tokens = {limits.max_action_tokens}; raise it",
        )
    if agent.has_local_model and limits.max_tokens is not None and context.tokens >= limits.max_tokens:
        yield Contradiction(
            (tokens, "environment.max_tokens"),
            f"{budget} must be less than environment.max_tokens = {limits.max_tokens}, which ends a trajectory; "
            "lower it, or raise environment.max_tokens",
        )


def _environment(config: Config) -> Iterator[Contradiction]:
    limits = config.environment
    if limits.max_tokens is not None and limits.max_action_tokens > limits.max_tokens:
        yield Contradiction(
            ("environment.max_action_tokens", "environment.max_tokens"),
            f"environment.max_action_tokens = {limits.max_action_tokens} does not fit into "
            f"environment.max_tokens = {limits.max_tokens}",
        )


def _tasks(config: Config) -> Iterator[Contradiction]:
    if config.tasks.file:
        reason = f"with tasks.file = {config.tasks.file!r}, which lists the tasks"
        yield from without_effect(config.tasks, "tasks", "tasks.file", reason, names={"families", "levels"})


def _gateway(config: Config) -> Iterator[Contradiction]:
    names = sorted(agent.name for agent in config.agents)
    for index, route in enumerate(config.gateway.routes):
        if route.name in names and route.agents != (route.name,):
            setting = f"gateway.routes[{index}].name"
            yield Contradiction(
                (setting, "agents"),
                f"{setting} = {route.name!r} is the name of an agent, which calls would no longer reach; choose "
                "another name, or give the route this agent alone",
            )
        for agent in route.agents:
            if agent not in names:
                setting = f"gateway.routes[{index}].agents"
                yield Contradiction(
                    (setting, "agents"),
                    f"{setting} names {agent!r}, which is no agent; [[agents]] has: {', '.join(names)}",
                )
    if config.gateway.text_features != "svd" and config.routing.policy not in FEATURE_POLICIES:
        known = ", ".join(sorted(FEATURE_POLICIES))
        yield Contradiction(
            ("gateway.text_features", "routing.policy"),
            f"gateway.text_features has no effect with routing.policy = {config.routing.policy!r}; "
            f"policies on features are {known}",
        )
    routes = [route.name for route in config.gateway.routes] or ["default"]
    for index, rule in enumerate(config.gateway.families):
        for name in rule.routes:
            if name not in routes:
                setting = f"gateway.families[{index}].routes"
                yield Contradiction(
                    (setting, "gateway.routes"),
                    f"{setting} names {name!r}, which is no route; [[gateway.routes]] has: {', '.join(routes)}",
                )


def _training(config: Config) -> Iterator[Contradiction]:
    for prefix in ("sft", "grpo"):
        if prefix in config.loop.train or prefix not in config.algorithms:
            continue
        reason = f"with loop.train = {list(config.loop.train)!r}, which does not include {prefix}"
        yield from without_effect(config.algorithms[prefix], prefix, "loop.train", reason)
    for prefix, section in config.algorithms.items():
        yield from _evaluations(prefix, section)
        yield from _minibatches(prefix, section)
    yield from _rollouts(config)
    yield from _overlong(config)
    if config.trains:
        yield from _improved_agent(config)
        yield from _readiness(config)
        yield from _heldout(config)
        yield from _trained_families(config)
    else:
        yield from _without_training(config)


def _evaluations(prefix: str, section: Settings) -> Iterator[Contradiction]:
    every, iterations = getattr(section, "evaluate_every", None), getattr(section, "iterations", None)
    if every is not None and iterations is not None and every > iterations:
        yield Contradiction(
            (f"{prefix}.evaluate_every", f"{prefix}.iterations"),
            f"{prefix}.evaluate_every = {every} is never reached with {prefix}.iterations = {iterations}; lower "
            "it, or raise the iterations",
        )


def _minibatches(prefix: str, section: Settings) -> Iterator[Contradiction]:
    """More minibatches than tasks per iteration; dynamic sampling, also of a preset, may draw more tasks."""
    if getattr(section, "preset", None) is not None or getattr(section, "dynamic_sampling", None) is not None:
        return
    key = next((name for name in ("tasks_per_iteration", "groups") if hasattr(section, name)), None)
    if key is None:
        return
    tasks = getattr(section, key)
    for name, text in changed_settings(section, prefix):
        holder: Any = getattr(section, "critic", None) if name == "critic.minibatches" else section
        if name.rpartition(".")[2] == "minibatches" and holder.minibatches > tasks:
            yield Contradiction(
                (f"{prefix}.{name}", f"{prefix}.{key}"),
                f"{text} is never reached with {prefix}.{key} = {tasks}: all trajectories of a task stay in one "
                "minibatch; lower it, or raise the number of tasks",
            )


def _rollouts(config: Config) -> Iterator[Contradiction]:
    rollouts = config.rollouts
    place = f"rollouts.place = {rollouts.place!r}"
    unused = _UNUSED_BY_PLACE[rollouts.place]
    yield from without_effect(rollouts, "rollouts", "rollouts.place", f"with {place}", names=unused)
    if rollouts.gpus_per_worker and config.run.device == "cpu":
        yield Contradiction(
            ("rollouts.gpus_per_worker", "run.device"),
            f"rollouts.gpus_per_worker = {rollouts.gpus_per_worker} reserves GPUs that run.device = 'cpu' does not "
            "use; set run.device = 'auto', or omit it",
        )
    if rollouts.place == "engine" and not rollouts.url:
        yield Contradiction(("rollouts.url", "rollouts.place"), f"{place} needs rollouts.url; set it")
    is_adapter = rollouts.place == "engine" and rollouts.dialect == "vllm" and config.lora is not None
    if is_adapter and rollouts.weights != "auto":
        yield Contradiction(
            ("rollouts.weights", "lora"),
            f"rollouts.weights = {rollouts.weights!r} has no effect with rollouts.dialect = 'vllm' and [lora]: "
            "only the adapter is handed over; omit it",
        )
    if rollouts.place == "engine":
        for prefix, section in config.algorithms.items():
            yield from _raw_logprobs(rollouts, prefix, section)


def _raw_logprobs(rollouts: RolloutConfig, prefix: str, section: Settings) -> Iterator[Contradiction]:
    """A policy gradient at another temperature than 1 with log-probs that are the model's at temperature 1."""
    heat = getattr(section, "temperature", 1.0)
    is_default = rollouts.logprobs == "auto" and rollouts.dialect == "vllm"
    if heat == 1.0 or not hasattr(section, "mismatch") or not (is_default or rollouts.logprobs == "raw"):
        return
    stated = "the default of rollouts.dialect = 'vllm'" if is_default else "rollouts.logprobs = 'raw'"
    cure = "start it with --logprobs-mode processed_logprobs"
    if rollouts.dialect == "sglang":
        cure = "start it without SGLANG_RETURN_ORIGINAL_LOGPROB in its environment"
    yield Contradiction(
        (f"{prefix}.temperature", "rollouts.logprobs"),
        f"{prefix}.temperature = {heat} needs log-probs at that temperature, but {stated} returns those at "
        f"temperature 1; {cure} and set rollouts.logprobs = 'processed', or sample at 1",
    )


def _precision(config: Config) -> Iterator[Contradiction]:
    """Weights in training that the adapter or the sampler do not have."""
    precisions, full = _precisions(config), _full_precision(config)
    if config.lora is not None and config.lora.base != "full" and full:
        yield Contradiction(
            ("lora.base", full),
            f"lora.base = {config.lora.base!r} needs bfloat16 for all other weights, but {full} is "
            f"{precisions[full]!r}; set {full} = 'bfloat16_weights', or remove lora.base",
        )
    short = next((name for name, value in precisions.items() if value == "bfloat16_weights"), None)
    if config.rollouts.place == "ray" and short is not None:
        yield Contradiction(
            ("rollouts.place", short),
            f"rollouts.place = 'ray' samples with float32 weights, but {short} = 'bfloat16_weights' trains others; "
            "sample in the process or with an engine, or set another precision",
        )


def _precisions(config: Config) -> dict[str, str]:
    """The precision of training by the full name of its setting: the shared one first, then by algorithm."""
    parts = {name: getattr(section, "optimiser", None) for name, section in config.algorithms.items()}
    sections = {"optimiser": config.optimiser}
    sections |= {f"{name}.optimiser": part for name, part in parts.items() if isinstance(part, OptimiserSettings)}
    return {f"{name}.precision": section.precision for name, section in sections.items()}


def _full_precision(config: Config) -> str:
    """The first setting by which weights are in float32 during training; empty = there is none."""
    return next((name for name, value in _precisions(config).items() if value != "bfloat16_weights"), "")


def _overlong(config: Config) -> Iterator[Contradiction]:
    tokens, buffer = config.rewards.overlong_tokens, config.rewards.overlong_buffer
    both = ("rewards.overlong_tokens", "rewards.overlong_buffer")
    if tokens is None and buffer is None:
        return
    if tokens is None or buffer is None:
        present, missing = both if buffer is None else reversed(both)
        yield Contradiction(both, f"{present} has no effect without {missing}; set both or neither")
    elif buffer >= tokens:
        yield Contradiction(
            both, f"{both[1]} = {buffer} must be less than {both[0]} = {tokens}, or every trajectory is overlong"
        )
    elif "grpo" not in config.loop.train:
        yield Contradiction(
            (both[0], "loop.train"),
            f"{both[0]} = {tokens} has no effect with loop.train = {list(config.loop.train)!r}: it is for "
            "reinforcement learning",
        )
    else:
        yield from _unreachable_penalty(config, tokens, buffer)


def _unreachable_penalty(config: Config, tokens: int, buffer: int) -> Iterator[Contradiction]:
    """An overlong penalty that starts at a length that no trajectory can reach."""
    limits = config.environment
    longest = limits.max_turns * limits.max_action_tokens
    if longest <= tokens - buffer:
        turns, action = "environment.max_turns", "environment.max_action_tokens"
        yield Contradiction(
            ("rewards.overlong_tokens", "rewards.overlong_buffer", turns, action),
            f"rewards.overlong_tokens = {tokens} has no effect: its penalty starts above {tokens - buffer} tokens, "
            f"and {turns} = {limits.max_turns} times {action} = {limits.max_action_tokens} allow {longest}; lower "
            "it, or allow more",
        )


def _trained_families(config: Config) -> Iterator[Contradiction]:
    served = config.tasks.families
    for family in config.tasks.train_families:
        if served and family not in served:
            yield Contradiction(
                ("tasks.train_families", "tasks.families"),
                f"tasks.train_families names {family!r}, which is not in tasks.families = {served!r}",
            )


def _traffic(config: Config) -> Iterator[Contradiction]:
    declared = [metric.name for metric in declared_metrics(config.gateway.metrics)]
    for name in () if config.traffic is None else config.traffic.metrics:
        if name not in declared:
            yield Contradiction(
                ("traffic.metrics", "gateway.metrics"),
                f"traffic.metrics names {name!r}, which is not declared; declared: {', '.join(declared)}. Declare "
                "further ones in [[gateway.metrics]]",
            )


def _schedule(config: Config) -> Iterator[Contradiction]:
    if config.schedule is not None and config.loop.cycles != 1:
        yield Contradiction(
            ("loop.cycles", "schedule"),
            f"loop.cycles = {config.loop.cycles} has no effect with [schedule], whose loop goes on until it is "
            "stopped; omit one of them",
        )


def _readiness(config: Config) -> Iterator[Contradiction]:
    tasks, cycles, points = config.tasks.count, config.loop.cycles, config.readiness.points
    # A pool that other runs fill may already hold what is missing.
    if not config.pool.path and config.schedule is None and tasks * cycles < points:
        yield Contradiction(
            ("readiness.points", "tasks.count", "loop.cycles", "pool.path"),
            f"readiness.points = {points} is never reached with tasks.count = {tasks} and loop.cycles = {cycles}; "
            "lower it, serve more tasks, or share a pool between runs with pool.path",
        )


def _heldout(config: Config) -> Iterator[Contradiction]:
    count = config.tasks.heldout_count
    if count < FEWEST_HELDOUT:
        yield Contradiction(
            ("tasks.heldout_count", "loop.train"),
            f"tasks.heldout_count = {count} is fewer than the {FEWEST_HELDOUT} held-out tasks that validation "
            f"needs for a release; set at least {FEWEST_HELDOUT}, or set loop.train = [] to route and record only",
        )


def _improved_agent(config: Config) -> Iterator[Contradiction]:
    improve = config.loop.improve
    local = [agent.name for agent in config.agents if agent.has_local_model]
    if not local:
        yield Contradiction(
            ("loop.train", "agents"),
            f"loop.train = {list(config.loop.train)!r} would train, but no [[agents]] has a local model (kind = "
            "'local_model', or 'program' without url); add one, or set loop.train = [] to route and record only",
        )
    elif improve and improve not in local:
        yield Contradiction(
            ("loop.improve", "agents"),
            f"loop.improve = {improve!r} is no agent with a local model; those are: {', '.join(local)}",
        )
    elif not improve and len(local) > 1:
        yield Contradiction(
            ("loop.improve", "agents"),
            f"[[agents]] has several with a local model ({', '.join(local)}); name one in loop.improve",
        )
    elif (
        (agent := config.improved_agent) is not None
        and agent.weights != "float32"
        and (full := _full_precision(config))
    ):
        # the trained weights would differ from the served ones
        weights = f"agents[{config.agents.index(agent)}].weights"
        yield Contradiction(
            (weights, "loop.improve", "loop.train"),
            f"{weights} = {agent.weights!r} cannot be trained in float32, and {agent.name!r} is to be trained; set "
            f"{full} = 'bfloat16_weights', omit it, or train another agent",
        )


def _without_training(config: Config) -> Iterator[Contradiction]:
    # validation and canary are not among them: releases are also started by hand
    yield from without_effect(config.trackers, "trackers", "loop.train", "with loop.train = []: nothing is trained")
    if config.lora is not None:
        yield Contradiction(("lora", "loop.train"), "lora has no effect with loop.train = []: nothing is trained")
    if config.loop.improve:
        yield Contradiction(
            ("loop.improve", "loop.train"),
            f"loop.improve = {config.loop.improve!r} has no effect with loop.train = []",
        )
