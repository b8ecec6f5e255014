"""How a question is put to a text model: in one endless assistant turn, or in turns of a chat template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """The text around questions and answers."""

    system: str
    """Before the first question."""
    before: str
    """Before each question."""
    after: str
    """Between a question and its answer."""
    close: str
    """After each answer."""
    end: str
    """Text at which an answer is over, for judging."""
    turns: bool
    """Whether an answer ends when the model says so; else it speaks on, and its special tokens are banned."""

    def ask(self, question: str) -> str:
        """A question, up to where its answer begins."""
        return f"{self.before}{question}{self.after}"

    def judged(self, text: str) -> str:
        """The part of what was said that counts as the answer."""
        return text.split(self.end)[0]


_USER, _ASSISTANT, _END = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"

FREE = Format(
    system=f"<|im_start|>system\nYou are a helpful AI assistant. Answer each question in one short sentence.{_END}"
    f"{_USER}Please answer my questions as they come, each in one short sentence.{_END}{_ASSISTANT}"
    "Question: What is the opposite of left?\nAnswer: The opposite of left is right.\n\n"
    "Question: What is the capital of Switzerland?\nAnswer: The capital of Switzerland is Bern.\n\n",
    before="Question: ",
    after="\nAnswer:",
    close="\n\n",
    end="\n",
    turns=False,
)
"""Free-running generation: a system prompt, one user turn, then one assistant turn without end, begun by two answers:
without them some sessions of a small model fall into a loop at once, whatever its KV."""

CHAT = Format(
    system=f"<|im_start|>system\nYou are a helpful AI assistant. Answer each question in one short sentence.{_END}",
    before=_USER,
    after=f"{_END}{_ASSISTANT}",
    close=_END,
    end="\n\n\n",
    turns=True,
)
"""Turn-based: the chat template of ChatML models around each question."""
