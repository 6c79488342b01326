"""Settings that contradict each other, or that would do nothing in the chosen combination.

No setting is silently ignored: each rule names both sides. A setting that equals its default was not chosen, so a
saved configuration, which names every setting, reads back without complaint.
"""

from collections.abc import Iterator
from typing import NamedTuple

from upturn.config.config import Config
from upturn.config.learning import RoundsConfig
from upturn.config.lesson import ImitationConfig
from upturn.config.section import AgentConfig, EnvironmentConfig, Section


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
        *_canary(config),
    ]


def _chosen(section: Section, prefix: str) -> Iterator[tuple[str, str]]:
    """Name and ``full.name = value`` of every setting that differs from its default, in sections below too."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from ((f"{name}.{inner}", shown) for inner, shown in _chosen(value, f"{prefix}.{name}"))
        elif value != field.default:
            yield name, f"{prefix}.{name} = {value!r}"


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
    for name, written in _chosen(agent, where):
        if name.partition(".")[0] in _FOR_SOME_KINDS - _USED_BY_KIND[agent.kind]:
            yield Contradiction(
                (f"{where}.{name}", f"{where}.kind"), f"{written} has no effect with {kind}; take one away"
            )


def _context(agent: AgentConfig, limits: EnvironmentConfig, where: str) -> Iterator[Contradiction]:
    context, tokens = agent.context, f"{where}.context.tokens"
    if "context" not in _USED_BY_KIND[agent.kind]:
        return
    if context.tokens is None:
        for name, written in _chosen(context, f"{where}.context"):
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
    for name, written in _chosen(config.tasks, "tasks"):
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
    for name, written in _chosen(routing, "routing"):
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
    for prefix, section in (("sft", config.sft), ("grpo", config.grpo)):
        if section.enabled:
            continue
        for name, written in _chosen(section, prefix):
            if name != "enabled":
                yield Contradiction(
                    (f"{prefix}.{name}", f"{prefix}.enabled"),
                    f"{written} has no effect with {prefix}.enabled = false",
                )
    yield from _rounds(config)
    yield from _minibatches(config)
    yield from _kept_attempts(config)
    yield from _curriculum(config)
    yield from _world_model(config)
    yield from _preference_rounds(config)
    yield from _rollouts(config)
    yield from _lora(config)
    yield from _overlong(config)
    if config.trains:
        yield from _improved_agent(config)
        yield from _readiness(config)
        yield from _heldout(config)
        yield from _practised_families(config)
    else:
        yield from _without_training(config)


def _rounds(config: Config) -> Iterator[Contradiction]:
    for prefix in type(config).model_fields:
        section = getattr(config, prefix)
        if not isinstance(section, RoundsConfig) or (section is config.grpo and not config.grpo.enabled):
            continue
        if section.evaluate_every > section.iterations:
            yield Contradiction(
                (f"{prefix}.evaluate_every", f"{prefix}.iterations"),
                f"{prefix}.evaluate_every = {section.evaluate_every} is never reached with "
                f"{prefix}.iterations = {section.iterations}; lower it, or do more rounds",
            )


def _minibatches(config: Config) -> Iterator[Contradiction]:
    """More steps than a round has tasks. Dynamic sampling, which presets may have, draws further ones."""
    grpo = config.grpo
    may_draw_more = grpo.preset is not None or grpo.algorithm.sampling_rounds is not None
    asked = (
        ("grpo", "minibatches", None if may_draw_more else grpo.minibatches),
        ("ppo", "minibatches", config.ppo.minibatches),
        ("ppo", "critic.minibatches", config.ppo.critic.minibatches),
        ("dpo_rounds", "critic.minibatches", config.dpo_rounds.critic.minibatches),
        ("offline", "minibatches", config.offline.minibatches),
        ("mixture", "minibatches", config.mixture.minibatches),
    )
    for prefix, name, count in asked:
        section: Section = getattr(config, prefix)
        key = "groups" if prefix == "offline" else "tasks_per_iteration"
        tasks: int = getattr(section, key)
        written = dict(_chosen(section, prefix)).get(name)
        if written is not None and count is not None and count > tasks:
            yield Contradiction(
                (f"{prefix}.{name}", f"{prefix}.{key}"),
                f"{written} is never reached with {prefix}.{key} = {tasks}: all attempts at a task stay in one "
                "minibatch; lower it, or take more tasks",
            )


def _kept_attempts(config: Config) -> Iterator[Contradiction]:
    for prefix in type(config).model_fields:
        section = getattr(config, prefix)
        if not isinstance(section, ImitationConfig):
            continue
        for name, written in _chosen(section, prefix):
            if name == "top" and section.top > section.attempts:
                yield Contradiction(
                    (f"{prefix}.top", f"{prefix}.attempts"),
                    f"{written} has no effect with {prefix}.attempts = {section.attempts}: a task has no more; "
                    "lower it, or make more attempts",
                )


def _rollouts(config: Config) -> Iterator[Contradiction]:
    place = f"rollouts.place = {config.rollouts.place!r}"
    used = {
        "process": ("place",),
        "ray": ("place", "workers", "address", "folder"),
        "engine": ("place", "url", "dialect", "folder", "api_key_env", "timeout_seconds", "max_length"),
    }[config.rollouts.place]
    for name, written in _chosen(config.rollouts, "rollouts"):
        if name not in used:
            yield Contradiction((f"rollouts.{name}", "rollouts.place"), f"{written} has no effect with {place}")
    if config.rollouts.place == "engine" and not config.rollouts.url:
        yield Contradiction(("rollouts.url", "rollouts.place"), f"{place} needs rollouts.url; set it")
    if config.rollouts.place == "engine" and config.rollouts.dialect == "vllm" and not config.lora.rank:
        yield Contradiction(
            ("rollouts.dialect", "lora.rank"),
            "rollouts.dialect = 'vllm' takes adapters while it runs, and lora.rank = 0 trains the whole model; set "
            "lora.rank, or let SGLang sample",
        )


def _lora(config: Config) -> Iterator[Contradiction]:
    for name, written in _chosen(config.lora, "lora"):
        if not config.lora.rank:
            yield Contradiction(
                (f"lora.{name}", "lora.rank"), f"{written} has no effect with lora.rank = 0; set it"
            )
        elif not config.trains:
            yield Contradiction(
                (f"lora.{name}", "sft.enabled", "grpo.enabled"),
                f"{written} has no effect with sft.enabled = false and grpo.enabled = false: nothing is trained",
            )


def _world_model(config: Config) -> Iterator[Contradiction]:
    section = config.world_model
    for name, written in _chosen(section, "world_model"):
        if name == "warm_up_learning_rate" and not section.warm_up_epochs:
            yield Contradiction(
                ("world_model.warm_up_learning_rate", "world_model.warm_up_epochs"),
                f"{written} has no effect with world_model.warm_up_epochs = 0",
            )


def _preference_rounds(config: Config) -> Iterator[Contradiction]:
    section, pairs = config.dpo_rounds, config.dpo_rounds.pairs
    for name, written in _chosen(section, "dpo_rounds"):
        if name == "pairs.continuations" and pairs.valued_by != "state_values":
            yield Contradiction(
                ("dpo_rounds.pairs.continuations", "dpo_rounds.pairs.valued_by"),
                f"{written} has no effect with dpo_rounds.pairs.valued_by = {pairs.valued_by!r}",
            )
        elif name.startswith("critic.") and pairs.monte_carlo_share == 1:
            yield Contradiction(
                (f"dpo_rounds.{name}", "dpo_rounds.pairs.monte_carlo_share"),
                f"{written} has no effect with dpo_rounds.pairs.monte_carlo_share = 1: there is no critic",
            )


def _curriculum(config: Config) -> Iterator[Contradiction]:
    section = config.curriculum
    policy = f"curriculum.policy = {section.policy!r}" if section.policy else "no curriculum.policy"
    for name, written in _chosen(section, "curriculum"):
        owner = name.partition(".")[0]
        if owner == "policy":
            continue
        if section.policy is None or (owner == "levels" and section.policy != "levels"):
            yield Contradiction(
                (f"curriculum.{name}", "curriculum.policy"), f"{written} has no effect with {policy}"
            )
        elif owner == "gate" and not section.is_gated:
            yield Contradiction(
                (f"curriculum.{name}", "curriculum.is_gated"),
                f"{written} has no effect with curriculum.is_gated = false",
            )
    if section.policy is not None and config.grpo.algorithm.staleness:
        yield Contradiction(
            ("curriculum.policy", "grpo.algorithm.staleness"),
            f"{policy} decides by what the last round came to, which sampling ahead "
            f"(grpo.algorithm.staleness = {config.grpo.algorithm.staleness}) does not know yet; take one away",
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
    elif tokens is not None and not config.grpo.enabled:
        yield Contradiction(
            (both[0], "grpo.enabled"),
            f"{both[0]} = {tokens} has no effect with grpo.enabled = false: it is for practice",
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


def _practised_families(config: Config) -> Iterator[Contradiction]:
    served = config.tasks.families
    for family in config.grpo.families:
        if served and family not in served:
            yield Contradiction(
                ("grpo.families", "tasks.families"),
                f"grpo.families names {family!r}, which tasks.families = {served!r} leaves out",
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
            ("tasks.heldout_count", "sft.enabled", "grpo.enabled"),
            f"tasks.heldout_count = {count} is fewer than the {FEWEST_HELDOUT} held-out tasks validation needs "
            f"before it releases anything; set at least {FEWEST_HELDOUT}, or set sft.enabled = false and "
            "grpo.enabled = false to route and record only",
        )


def _improved_agent(config: Config) -> Iterator[Contradiction]:
    local = [agent.name for agent in config.agents if agent.kind == "local_model"]
    enabled = " and ".join(name for name in ("sft", "grpo") if getattr(config, name).enabled)
    if not local:
        yield Contradiction(
            ("sft.enabled", "grpo.enabled", "agents"),
            f'{enabled} would train, but no [[agents]] has kind = "local_model"; add one, or set '
            "sft.enabled = false and grpo.enabled = false to route and record only",
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
            (where, "loop.improve", "sft.enabled", "grpo.enabled"),
            f"{where} = {agent.weights!r} cannot be trained, and {agent.name!r} is the agent that is; leave it out "
            "(optimiser.precision = 'bfloat16' computes in it and keeps float32 weights), or train another agent",
        )


def _without_training(config: Config) -> Iterator[Contradiction]:
    sections: tuple[tuple[str, Section], ...] = (("validation", config.validation), ("canary", config.canary))
    for prefix, section in sections:
        for name, written in _chosen(section, prefix):
            yield Contradiction(
                (f"{prefix}.{name}", "sft.enabled", "grpo.enabled"),
                f"{written} has no effect with sft.enabled = false and grpo.enabled = false: nothing is released",
            )
    if config.loop.improve:
        yield Contradiction(
            ("loop.improve", "sft.enabled", "grpo.enabled"),
            f"loop.improve = {config.loop.improve!r} has no effect with sft.enabled = false and "
            "grpo.enabled = false",
        )


def _canary(config: Config) -> Iterator[Contradiction]:
    canary = config.canary
    if canary.min_candidate_tasks > canary.max_candidate_tasks:
        yield Contradiction(
            ("canary.min_candidate_tasks", "canary.max_candidate_tasks"),
            f"canary.min_candidate_tasks = {canary.min_candidate_tasks} is more than "
            f"canary.max_candidate_tasks = {canary.max_candidate_tasks}",
        )
