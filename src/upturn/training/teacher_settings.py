"""The settings of a teacher, a frozen model that scores the tokens of the model in training. No torch here."""

from collections.abc import Iterator
from typing import Literal

from upturn.config import Count, FilePath, Keyed, Positive, Settings, Share, Url, report_unused, settings

TeacherDialect = Literal["vllm", "sglang", "openai"]
TeacherEstimator = Literal["sampled", "full"]
TeacherPrecision = Literal["float32", "bfloat16"]


@settings
class TeacherSettings(Settings):
    """On-policy distillation: a teacher scores the tokens that the model sampled, and log π_teacher − log π is the
    advantage of each token, whose policy gradient is that of the reverse KL divergence KL(π ‖ π_teacher)."""

    model: FilePath = ""
    """The teacher: ``nano``, a folder or a Hugging Face name; with ``url`` the name that the server knows it by.
    Its tokenizer must have the same tokens as that of the model in training."""
    coefficient: Positive = 1.0
    """Factor of the teacher's advantages. They are added to those of the rewards, after these were normalised."""
    estimator: TeacherEstimator = "sampled"
    """What the teacher is asked for. ``sampled``: log π_teacher of the sampled tokens, as advantages. ``full``: its
    whole distributions, for the exact KL divergence before each token as a term of the loss. It has less noise, and
    needs a local teacher and a single process."""
    discount: Share = 0.0
    """Weight of the next token's teacher advantage in a token's own, and so on to the end of the row. 0 = each
    token answers for itself alone, as in the method's description; 1 = for the whole rest, as in a return."""
    weights: TeacherPrecision = "float32"
    """Data type of a local teacher's weights."""
    url: Url = ""
    """Base URL of a server that has the teacher; empty = the teacher is computed here."""
    dialect: TeacherDialect = "vllm"
    """With ``url``: its API. ``vllm``: completions with ``prompt_logprobs``; ``sglang``: ``/generate`` with
    ``logprob_start_len``; ``openai``: completions with ``echo`` and ``logprobs``, for prompts of token ids."""
    tokenizer: FilePath = ""
    """With ``url``, needed: folder or Hugging Face name of the teacher's tokenizer, which is compared with that of
    the model in training."""
    api_key_env: str = ""
    """With ``url``: name of the environment variable with the API key. Empty = no key is sent,
    unless ``api_key_file`` names one."""
    api_key_file: FilePath = ""
    """With ``url``: file with the API key as its content, in place of ``api_key_env``; relative to the folder of
    the configuration file."""
    timeout_seconds: Positive = 120.0
    """With ``url``: timeout of one try of a request."""
    concurrency: Count = 16
    """With ``url``: concurrent requests."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        is_full = self.estimator == "full"
        because = "with estimator='full', which is exact for each token alone; leave it out"
        yield report_unused(is_full and self.discount != 0, f"discount={self.discount!r}", because)
        if self.url:
            if is_full:
                yield f"url={self.url!r} cannot give whole distributions, as estimator='full' needs; take 'sampled'"
            if not self.tokenizer:
                yield (
                    f"url={self.url!r} needs tokenizer, the folder or name of the teacher's tokenizer: tokens of "
                    "another tokenizer would be scored as other text"
                )
            if not self.model:
                yield f"url={self.url!r} needs model, the name that the server knows it by"
            unread = self.weights != "float32"
            yield report_unused(unread, f"weights={self.weights!r}", "with url: the server has chosen its weights")
            return
        for name, usual in _REMOTE.items():
            value = getattr(self, name)
            yield report_unused(value != usual, f"{name}={value!r}", "without url; set it or leave this out")


_REMOTE = {
    "dialect": "vllm",
    "tokenizer": "",
    "api_key_env": "",
    "api_key_file": "",
    "timeout_seconds": 120.0,
    "concurrency": 16,
}
"""Settings of a server, with their defaults."""


def teacher_models(teacher: TeacherSettings | None) -> Iterator[tuple[str, str]]:
    """Yields (setting, model) for what a teacher needs on this machine."""
    if teacher is not None:
        yield ("teacher.tokenizer", teacher.tokenizer) if teacher.url else ("teacher.model", teacher.model)


def keyed_teacher(teacher: TeacherSettings | None) -> Iterator[tuple[str, Keyed]]:
    """Yields (name, settings) of a teacher, which may name an API key."""
    if teacher is not None:
        yield "teacher", teacher
