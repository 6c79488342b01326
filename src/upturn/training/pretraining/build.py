"""Pre-trains a model by its recipe, from scratch."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.models import CompactRenderer
from upturn.training.pretraining.recipe import Recipe
from upturn.training.pretraining.steps import PretrainingSteps
from upturn.training.runs import CurvePoint

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel


def new_model(recipe: Recipe, seed: int) -> "PreTrainedModel":
    """An untrained Qwen2: about a million parameters, plus 128 for each entry of the vocabulary."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=recipe.vocabulary,
            hidden_size=128,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=recipe.positions,
            tie_word_embeddings=True,
            use_sliding_window=False,
            attention_dropout=0.0,
        )
    )


def pretrain(
    recipe: Recipe, folder: Path, *, seed: int, threads: int | None, progress: Callable[[int, float], None]
) -> tuple["PreTrainedModel", "Tokenizer"]:
    """The trained model and its tokenizer; resumes from ``folder``. ``progress`` gets steps done and the loss."""
    from tokenizers import Tokenizer

    from upturn.config import OptimiserSettings
    from upturn.training.optimisation import Trainer, torch_threads
    from upturn.training.runs import Run, RunOptions, RunPlan, identity_of

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    if not path.exists():
        recipe.new_tokenizer().save(str(path.with_suffix(".partial")))
        path.with_suffix(".partial").rename(path)
    tokenizer = Tokenizer.from_file(str(path))
    model = new_model(recipe, seed)
    with torch_threads(threads):
        for phase in recipe.schedule:
            settings = OptimiserSettings(
                learning_rate=phase.learning_rate,
                weight_decay=0.05,
                micro_batch_tokens=2048,  # a step fits into the cache: a tenth faster than with 8192
                packing="padded",  # every token is predicted and prefixes are short: a tree would save nothing
            )
            trainer = Trainer(model, settings, phase.learning_rate_factor)
            plan = RunPlan(
                units=phase.steps, evaluate_every=None, checkpoint_every=50, keep="final", unit="optimiser step"
            )
            steps = PretrainingSteps(phase, recipe.demonstration, CompactRenderer(tokenizer))
            identity = identity_of(trainer, "pretraining", settings, seed=seed, phase=phase, shown=steps.digest())

            def report(point: CurvePoint, first_step: int = phase.first_step) -> None:
                progress(first_step + point.units, point.metrics.get("loss") or 0.0)

            options = RunOptions(seed, folder / phase.name, progress=report)
            Run(trainer, steps, plan, identity, options).finish()
    return model, tokenizer
