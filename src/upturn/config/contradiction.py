"""Settings that contradict each other, or that would do nothing in the chosen combination.

No setting is silently ignored: each rule names both sides. A setting that equals its default was not chosen, so a
saved configuration, which names every setting, reads back without complaint.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from upturn.config.config import Config
from upturn.config.section import AgentConfig, EnvironmentConfig
from upturn.config.settings import Settings, changed


class Contradiction(NamedTuple):
    """Two settings that do not go together."""

    settings: tuple[str, ...]
    """Full names of the settings involved, such as ``routing.policy``."""
    message: str


_USED_BY_KIND = {
    "local_model": {"model", "prompt", "temperature", "template_options", "weights", "context"},
    "endpoint": {"model", "url", "prompt", "temperature", "api_key_env", "context"},
    "callable": {"import_path"},
    "rule_based": {"import_path"},
}
_NEEDED_BY_KIND = {
    "local_model": ("model",),
    "endpoint": ("url", "model"),
    "callable": ("import_path",),
    "rule_based": ("import_path",),
}
FEWEST_HELDOUT = 30
"""Held-out tasks below which validation trusts no interval, so that nothing is ever released."""
_FOR_SOME_KINDS = set().union(*_USED_BY_KIND.values())


def contradictions(config: Config) -> list[Contradiction]:
    """Every contradiction in the configuration, in the order of its sections."""
    return [
        *_agents(config),
        *_environment(config),
        *_tasks(config),
        *_routing(config),
        *_training(config),
    ]


def _agents(config: Config) -> Iterator[Contradiction]:
    names = [agent.name for agent in config.agents]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            places = tuple(f"agents[{index}].name" for index, each in enumerate(names) if each == name)
            yield Contradiction(places, f"{' and '.join(places)} are both {name!r}; names must differ")
    for index, agent in enumerate(config.agents):
        yield from _agent(agent, f"agents[{index}]")
        yield from _context(agent, config.environment, f"agents[{index}]")


def _agent(agent: AgentConfig, where: str) -> Iterator[Contradiction]:
    kind = f"{where}.kind = {agent.kind!r}"
    for name in _NEEDED_BY_KIND[agent.kind]:
        if not getattr(agent, name):
            yield Contradiction((f"{where}.{name}", f"{where}.kind"), f"{kind} needs {where}.{name}; set it")
    for name, written in changed(agent, where):
        if name.partition(".")[0] in _FOR_SOME_KINDS - _USED_BY_KIND[agent.kind]:
            yield Contradiction(
                (f"{where}.{name}", f"{where}.kind"), f"{written} has no effect with {kind}; take one away"
            )


def _context(agent: AgentConfig, limits: EnvironmentConfig, where: str) -> Iterator[Contradiction]:
    context, tokens = agent.context, f"{where}.context.tokens"
    if "context" not in _USED_BY_KIND[agent.kind]:
        return
    if context.tokens is None:
        for name, written in changed(context, f"{where}.context"):
            yield Contradiction((f"{where}.context.{name}", tokens), f"{written} has no effect without {tokens}")
        return
    shown = f"{tokens} = {context.tokens}"
    longest = context.longest_observation(context.tokens)
    if longest >= context.tokens:
        yield Contradiction(
            (f"{where}.context.observation_tokens", tokens),
            f"{where}.context.observation_tokens = {longest} has no effect with {shown}, which is not more",
        )
    elif context.summary_tokens >= longest:
        yield Contradiction(
            (f"{where}.context.summary_tokens", f"{where}.context.observation_tokens", tokens),
            f"{where}.context.summary_tokens = {context.summary_tokens} has no effect: with {shown} an observation "
            f"is shown with at most {longest} tokens; lower it, or raise the others",
        )
    if longest + limits.max_action_tokens >= context.tokens:
        yield Contradiction(
            (tokens, f"{where}.context.observation_tokens", "environment.max_action_tokens"),
            f"{shown} has no room for an observation of {longest} tokens and "
            f"environment.max_action_tokens = {limits.max_action_tokens}; raise it",
        )
    if agent.kind == "local_model" and limits.max_tokens is not None and context.tokens >= limits.max_tokens:
        yield Contradiction(
            (tokens, "environment.max_tokens"),
            f"{shown} must be less than environment.max_tokens = {limits.max_tokens}, which ends an attempt; "
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
    if not config.tasks.file:
        return
    for name, written in changed(config.tasks, "tasks"):
        if name in ("families", "levels"):
            yield Contradiction(
                (f"tasks.{name}", "tasks.file"),
                f"{written} has no effect with tasks.file = {config.tasks.file!r}, which says what the tasks are",
            )


def _routing(config: Config) -> Iterator[Contradiction]:
    routing = config.routing
    policy = f"routing.policy = {routing.policy!r}"
    unused = {
        "thompson": ("default_agent", "rules"),
        "rule_based": ("discount",),
        "uniform": ("floor", "discount", "default_agent", "rules"),
    }[routing.policy]
    for name, written in changed(routing, "routing"):
        if name in unused:
            yield Contradiction((f"routing.{name}", "routing.policy"), f"{written} has no effect with {policy}")
    if routing.policy != "rule_based":
        return
    known = ", ".join(sorted(agent.name for agent in config.agents))
    if not routing.default_agent:
        yield Contradiction(
            ("routing.default_agent", "routing.policy"), f"{policy} needs routing.default_agent, one of: {known}"
        )
    wanted = {"default_agent": routing.default_agent}
    wanted.update({f"rules.{family}": agent for family, agent in routing.rules.items()})
    for name, agent_name in wanted.items():
        if agent_name and agent_name not in {agent.name for agent in config.agents}:
            yield Contradiction(
                (f"routing.{name.partition('.')[0]}", "agents"),
                f"routing.{name} = {agent_name!r} is no agent; [[agents]] has: {known}",
            )


def _training(config: Config) -> Iterator[Contradiction]:
    for prefix in ("sft", "grpo"):
        if prefix in config.loop.train or prefix not in config.algorithms:
            continue
        for name, written in changed(config.algorithms[prefix], prefix):
            yield Contradiction(
                (f"{prefix}.{name}", "loop.train"),
                f"{written} has no effect with loop.train = {list(config.loop.train)!r}, which leaves {prefix} out",
            )
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
            f"it, "
            "or do more iterations",
        )


def _minibatches(prefix: str, section: Settings) -> Iterator[Contradiction]:
    """More steps than an iteration has tasks. Dynamic sampling, which presets may have, draws further ones."""
    if getattr(section, "preset", None) is not None or getattr(section, "dynamic_sampling", None) is not None:
        return
    key = next((name for name in ("tasks_per_iteration", "groups") if hasattr(section, name)), None)
    for name, written in changed(section, prefix) if key else ():
        holder: Any = getattr(section, "critic", None) if name == "critic.minibatches" else section
        if name.rpartition(".")[2] == "minibatches" and holder.minibatches > getattr(section, str(key)):
            yield Contradiction(
                (f"{prefix}.{name}", f"{prefix}.{key}"),
                f"{written} is never reached with {prefix}.{key} = {getattr(section, str(key))}: all "
                f"trajectories of "
                "a task stay in one minibatch; lower it, or take more tasks",
            )


def _rollouts(config: Config) -> Iterator[Contradiction]:
    place = f"rollouts.place = {config.rollouts.place!r}"
    used = {
        "process": ("place",),
        "ray": ("place", "workers", "address", "folder"),
        "engine": ("place", "url", "dialect", "folder", "api_key_env", "timeout_seconds", "max_length"),
    }[config.rollouts.place]
    for name, written in changed(config.rollouts, "rollouts"):
        if name not in used:
            yield Contradiction((f"rollouts.{name}", "rollouts.place"), f"{written} has no effect with {place}")
    if config.rollouts.place == "engine" and not config.rollouts.url:
        yield Contradiction(("rollouts.url", "rollouts.place"), f"{place} needs rollouts.url; set it")
    if config.rollouts.place == "engine" and config.rollouts.dialect == "vllm" and config.lora is None:
        yield Contradiction(
            ("rollouts.dialect", "lora"),
            "rollouts.dialect = 'vllm' takes adapters while it runs, and without [lora] the whole model is "
            "trained; "
            "set lora.rank, or let SGLang sample",
        )


def _overlong(config: Config) -> Iterator[Contradiction]:
    tokens, buffer = config.rewards.overlong_tokens, config.rewards.overlong_buffer
    both = ("rewards.overlong_tokens", "rewards.overlong_buffer")
    if (tokens is None) != (buffer is None):
        given, missing = both if buffer is None else reversed(both)
        yield Contradiction(both, f"{given} has no effect without {missing}; set both or neither")
    elif tokens is not None and buffer is not None and buffer >= tokens:
        yield Contradiction(
            both, f"{both[1]} = {buffer} must be less than {both[0]} = {tokens}, or every attempt is overlong"
        )
    elif tokens is not None and "grpo" not in config.loop.train:
        yield Contradiction(
            (both[0], "loop.train"),
            f"{both[0]} = {tokens} has no effect with loop.train = {list(config.loop.train)!r}: it is for "
            "reinforcement learning",
        )
    elif tokens is not None and buffer is not None:
        yield from _unreachable(config, tokens, buffer)


def _unreachable(config: Config, tokens: int, buffer: int) -> Iterator[Contradiction]:
    """A penalty that begins where no attempt can come to."""
    limits = config.environment
    longest = limits.max_turns * limits.max_action_tokens
    if longest <= tokens - buffer:
        yield Contradiction(
            (
                "rewards.overlong_tokens",
                "rewards.overlong_buffer",
                "environment.max_turns",
                "environment.max_action_tokens",
            ),
            f"rewards.overlong_tokens = {tokens} has no effect: its penalty begins above {tokens - buffer} tokens, "
            f"and environment.max_turns = {limits.max_turns} times environment.max_action_tokens = "
            f"{limits.max_action_tokens} allow {longest}; lower it, or allow more",
        )


def _trained_families(config: Config) -> Iterator[Contradiction]:
    served = config.tasks.families
    for family in config.tasks.train_families:
        if served and family not in served:
            yield Contradiction(
                ("tasks.train_families", "tasks.families"),
                f"tasks.train_families names {family!r}, which tasks.families = {served!r} leaves out",
            )


def _readiness(config: Config) -> Iterator[Contradiction]:
    tasks, cycles, points = config.tasks.count, config.loop.cycles, config.readiness.points
    # A pool that other runs fill may already hold what is missing.
    if not config.pool.path and tasks * cycles < points:
        yield Contradiction(
            ("readiness.points", "tasks.count", "loop.cycles", "pool.path"),
            f"readiness.points = {points} is never reached with tasks.count = {tasks} and loop.cycles = {cycles}; "
            "lower it, ask for more tasks, or share a pool between runs with pool.path",
        )


def _heldout(config: Config) -> Iterator[Contradiction]:
    count = config.tasks.heldout_count
    if count < FEWEST_HELDOUT:
        yield Contradiction(
            ("tasks.heldout_count", "loop.train"),
            f"tasks.heldout_count = {count} is fewer than the {FEWEST_HELDOUT} held-out tasks validation needs "
            f"before it releases anything; set at least {FEWEST_HELDOUT}, or set loop.train = [] to route and "
            f"record "
            "only",
        )


def _improved_agent(config: Config) -> Iterator[Contradiction]:
    local = [agent.name for agent in config.agents if agent.kind == "local_model"]
    if not local:
        yield Contradiction(
            ("loop.train", "agents"),
            f"loop.train = {list(config.loop.train)!r} would train, but no [[agents]] has kind = 'local_model'; "
            "add one, or set loop.train = [] to route and record only",
        )
    elif config.loop.improve and config.loop.improve not in local:
        yield Contradiction(
            ("loop.improve", "agents"),
            f"loop.improve = {config.loop.improve!r} is no agent of kind 'local_model'; "
            f"those are: {', '.join(local)}",
        )
    elif not config.loop.improve and len(local) > 1:
        yield Contradiction(
            ("loop.improve", "agents"),
            f"[[agents]] has several of kind 'local_model' ({', '.join(local)}); "
            "name the one to train in loop.improve",
        )
    else:
        yield from _trained_weights(config)


def _trained_weights(config: Config) -> Iterator[Contradiction]:
    """Every token is stamped with the hash of float32 weights, and small steps vanish in fewer bits."""
    agent = config.improved_agent
    if agent is not None and agent.weights != "float32":
        where = f"agents[{config.agents.index(agent)}].weights"
        yield Contradiction(
            (where, "loop.improve", "loop.train"),
            f"{where} = {agent.weights!r} cannot be trained, and {agent.name!r} is the agent that is; leave it out "
            "(optimiser.precision = 'bfloat16' computes in it and keeps float32 weights), or train another agent",
        )


def _without_training(config: Config) -> Iterator[Contradiction]:
    sections: tuple[tuple[str, Settings], ...] = (("validation", config.validation), ("canary", config.canary))
    for prefix, section in sections:
        for name, written in changed(section, prefix):
            yield Contradiction(
                (f"{prefix}.{name}", "loop.train"),
                f"{written} has no effect with loop.train = []: nothing is released",
            )
    if config.lora is not None:
        yield Contradiction(("lora", "loop.train"), "lora has no effect with loop.train = []: nothing is trained")
    if config.loop.improve:
        yield Contradiction(
            ("loop.improve", "loop.train"),
            f"loop.improve = {config.loop.improve!r} has no effect with loop.train = []",
        )
