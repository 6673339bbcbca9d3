"""Running a file: tokens, prompts, logits, text, chats, embeddings and scores."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

from . import _native
from ._calls import as_path, call, hub, stated
from ._events import receive
from ._files import Metadata
from ._options import ChatOptions, GenerateOptions, adapters, defaults, keywords, options
from ._progress import shown
from ._results import Score

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from typing import Any, Literal

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Unpack

    from ._annotations import Activations, Ids, Messages
    from ._options import Lora, Progress, StrPath


# Placeholder of an image or a sound in a prompt, and placeholders of one kind.
_PLACE = "<__media__>"
_PLACES = {"image": "<__image__>", "audio": "<__audio__>"}


def _json(value) -> str:
    import json

    return json.dumps(value)


def _options(**options) -> str:
    return _json(stated(options))


def _ids(ids) -> list:
    return ids.tolist() if hasattr(ids, "tolist") else list(ids)


def _kind(part):
    """The kind of medium of a part of a message, or None for other parts."""
    name = str(part.get("type", "")).removeprefix("input_")
    return next((kind for kind in _PLACES if name.startswith(kind)), None)


def _with_places(messages, n_images: int, n_audio: int = 0) -> list:
    """Copies of messages with a placeholder for each image and sound, and texts instead of parts. Without placeholders, images and
    sounds come before the last user message."""
    messages = [dict(message) for message in messages]
    given = {"image": n_images, "audio": n_audio}
    kinds = [kind for kind, n in given.items() if n]
    found = dict.fromkeys(given, 0)
    for message in messages:
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            # Without sounds in the options, parts with audio are left to the template.
            own = [_kind(part) if _kind(part) != "audio" or n_audio else None for part in content]
            texts = [_PLACES[kind] if kind else part.get("text") for kind, part in zip(own, content)]
            if None in texts:
                # Parts that are neither texts nor media are left to the template.
                continue
            content = message["content"] = "".join(texts)
            if not kinds:
                found["image"] += own.count("image")
        if kinds and isinstance(content, str):
            for kind in given:
                found[kind] += content.count(_PLACES[kind])
            if len(kinds) == 1:
                found[kinds[0]] += content.count(_PLACE)
    asked = [message for message in messages if message.get("role") == "user"]
    if kinds and not any(found.values()) and asked:
        content = asked[-1].get("content") or ""
        if isinstance(content, str):
            asked[-1]["content"] = "".join(_PLACES[kind] * n for kind, n in given.items()) + content
            found = dict(given)
    for kind, option in (("image", "images"), ("audio", "audio")):
        if found[kind] != given[kind]:
            raise ValueError(f"{option}: expected {found[kind]}, one for each {kind} in the messages, found {given[kind]}")
    return messages


def _pieces(native):
    try:
        while True:
            step = native.next()
            if step is None:
                return
            is_warning, text = step
            if is_warning:
                receive("warning", text)
            else:
                yield text
    finally:
        native.close()


class Model:
    """A GGUF file that is ready to run on the CPU. Weights stay in the mapped file.

    Methods that run the model release the interpreter's lock and stop on Ctrl-C. A model can be used by several threads.

    Args:
        path: The file, or any shard of a split model.
        convert: Accept a checkpoint folder or model of the Hub too. It is converted to the current folder, as ``gguf-eval chat`` does;
            the file of an earlier call is used again.
        threads: Number of threads. Default: one per core.
        activations: ``"f32"`` for exact activations, or ``"rounded"`` to round them as llama.cpp's CPU kernels do.
        lora: LoRA adapter files (GGUF) to apply while the model runs: a path, a list of paths or of ``(path, scale)``, or a dict of
            paths and scales.

    Raises:
        GgufError: The file cannot be read, its architecture cannot be run, or an adapter does not belong to the model.

    Example:
        >>> model = gt.Model("model-it-q4_k_m.gguf")
        >>> model.generate([{"role": "user", "content": "What is a llama?"}], max_tokens=64)
    """

    def __init__(
        self, path: StrPath, *, convert: bool = False, threads: int | None = None, activations: Activations = "f32",
        lora: Lora = (),
    ) -> None:
        if convert:
            path = as_path(call("gguf_of", {"options": os.fsdecode(path), "hub": hub()}, None))
        options = _options(threads=threads, activations=activations, adapters=adapters(lora))
        self._native = _native.Model.open(os.fspath(path), options)
        #: The path of the file.
        self.path = path
        #: The metadata; for a split model that of the first file.
        self.metadata = Metadata(self._native)

    @property
    def architecture(self) -> str:
        """The value of ``general.architecture``."""
        return self._native.architecture()

    @property
    def context_length(self) -> int | None:
        """Training context length in tokens; None if no key states it."""
        return self._native.context_length()

    @property
    def n_vocab(self) -> int:
        """Number of tokens that are predicted."""
        return self._native.n_vocab()

    @property
    def labels(self) -> list[str]:
        """Names of the scores of a reranker; empty if the file has none."""
        return self._native.labels()

    def tokenize(self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Splits a text into token ids.

        Args:
            text: The text, or its bytes, which need not be UTF-8.
            add_special: Add the special tokens that the tokenizer adds around a text, such as BOS.
            parse_special: Read the texts of special tokens as these tokens.

        Returns:
            The token ids.

        Raises:
            GgufError: The text cannot be tokenized.

        Example:
            >>> model.tokenize("Hello!", add_special=False)
        """
        text = text.encode() if isinstance(text, str) else bytes(text)
        return self._native.tokenize(text, _options(add_special=add_special, parse_special=parse_special))

    def detokenize(self, ids: Ids) -> str:
        """Returns the text of token ids. Bytes that are not UTF-8, such as half a character, become U+FFFD.

        Args:
            ids: Token ids: a list, or an array of one dimension.

        Raises:
            GgufError: An id is not in the vocabulary.

        Example:
            >>> model.detokenize(model.tokenize("Hello!", add_special=False))
            'Hello!'
        """
        return self.detokenize_bytes(ids).decode("utf-8", "replace")

    def detokenize_bytes(self, ids: Ids) -> bytes:
        """Returns the bytes of token ids, for texts that end within a character.

        Args:
            ids: Token ids: a list, or an array of one dimension.

        Raises:
            GgufError: An id is not in the vocabulary.

        Example:
            >>> model.detokenize_bytes(ids[:3])
        """
        return self._native.detokenize(_ids(ids))

    def apply_chat_template(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        template: str | None = None,
        date: str | None = None,
        **variables: Any,
    ) -> str:
        """Renders messages with the file's chat template, as ``apply_chat_template`` of transformers does.

        Templates are untrusted, so their time and memory are limited. To tokenize the prompt, use ``parse_special=True``, and
        ``add_special=False`` if it starts with the BOS token (:meth:`starts_with_bos`).

        Args:
            messages: Dicts with ``role`` and ``content``, the oldest first.
            tools: Functions that the model may call: dicts in the form of OpenAI's API.
            add_generation_prompt: Add the beginning of the model's turn.
            template: Name of one of several templates, for example ``"tool_use"``.
            date: Date for templates that show it, for example ``"2024-07-26"``. Default: today.
            variables: Further variables of the template, for example ``enable_thinking=False``.

        Returns:
            The prompt.

        Raises:
            GgufError: The file has no such template, or the template refuses the messages.
            ValueError: The messages are invalid.

        Example:
            >>> model.apply_chat_template([{"role": "user", "content": "Hello!"}])
        """
        options = _options(
            tools=tools, add_generation_prompt=add_generation_prompt, template=template, date=date, variables=variables
        )
        return self._native.apply_chat_template(_json(list(messages)), options)

    def starts_with_bos(self, text: str) -> bool:
        """Returns True if a prompt starts with the BOS token and should be tokenized with ``add_special=False``.

        Args:
            text: The prompt.

        Example:
            >>> ids = model.tokenize(prompt, add_special=not model.starts_with_bos(prompt), parse_special=True)
        """
        return self._native.starts_with_bos(text)

    def logits(self, ids: Ids) -> npt.NDArray[np.float32]:
        """Computes the logits of the token after each of ``ids``.

        Args:
            ids: Token ids: a list, or an array of one dimension.

        Returns:
            A float32 array of shape (n_tokens, n_vocab).

        Raises:
            GgufError: An id is not in the vocabulary, or the model does not predict the next token.

        Example:
            >>> logits = model.logits(model.tokenize("The capital of France is"))
            >>> model.detokenize([logits[-1].argmax()])
        """
        return self._native.logits(_ids(ids))

    @overload
    def generate(
        self, prompt: str | Messages, *, stream: Literal[False] = False, **given: Unpack[GenerateOptions]
    ) -> str: ...
    @overload
    def generate(
        self, prompt: str | Messages, *, stream: Literal[True], **given: Unpack[GenerateOptions]
    ) -> Generator[str, None, None]: ...
    @keywords(GenerateOptions)
    def generate(self, prompt, *, stream=False, **given):
        """Continues a text, or answers messages through the chat template. The same call generates the same text every time.

        Args:
            prompt: A text to continue, or a list of messages to answer (:meth:`apply_chat_template`).
            stream: Return an iterator of pieces of the text while it is generated. Ctrl-C and closing the iterator stop the
                generation.

        Returns:
            The text, or with ``stream`` an iterator of texts.

        Raises:
            GgufError: The model does not generate text, or an image or a sound cannot be read.
            ValueError: An option or the messages are invalid.

        Example:
            >>> for text in model.generate("The capital of France is", max_tokens=8, stream=True):
            ...     print(text, end="", flush=True)
        """
        chosen = options("generate", GenerateOptions, {**defaults(GenerateOptions), **given}, has_hub=False)
        tools, variables = given.get("tools"), given.get("variables")
        chat = None
        if isinstance(prompt, str):
            if tools is not None or variables:
                raise ValueError("tools and variables: expected a list of messages, found a text")
        else:
            chat = _options(tools=tools, variables=variables or None)
            prompt = _json(_with_places(prompt, len(chosen.get("images", ())), len(chosen.get("audio", ()))))
        pieces = _pieces(self._native.generate(prompt, chat, _json(chosen)))
        return pieces if stream else "".join(pieces)

    @keywords(ChatOptions)
    def chat(self, **given: Unpack[ChatOptions]) -> ChatSession:
        """Starts a chat of several turns. Each turn computes only the tokens that are new.

        Args:
            system: System message.

        Returns:
            The chat.

        Raises:
            GgufError: The file has no chat template, or an option is invalid.

        Example:
            >>> chat = model.chat(system="Answer in one sentence.")
            >>> chat.ask("What is a llama?")
        """
        import json

        chosen = options("chat", ChatOptions, given, has_hub=False)
        chosen["sampling"] = {**json.loads(self._native.recommended_sampling()), **chosen.get("sampling", {})}
        return ChatSession(self._native.chat(_json(chosen)))

    def embed(
        self,
        texts: str | Sequence[str] | Sequence[tuple[str, str]],
        *,
        pooling: Literal["none", "mean", "cls", "last", "rank"] | None = None,
        normalize: bool = False,
        plain: bool = False,
        progress: Progress | None = None,
    ) -> Any:
        """Computes embeddings of texts, or scores with a reranker.

        Args:
            texts: A text, or a list of texts. For a reranker, pairs of a query and a document.
            pooling: ``"mean"``, ``"cls"``, ``"last"``, ``"rank"`` (scores) or ``"none"`` (a vector for each token). Default: the
                method that the file names.
            normalize: Scale each vector to length 1.
            plain: Read the text of special tokens as plain text.
            progress: Called with the number of finished texts and of all texts.

        Returns:
            A float32 array of shape (n_texts, width), or (width,) for a single text. With ``"none"``, a list of arrays of shape
            (n_tokens, width), or one such array.

        Raises:
            GgufError: Neither ``pooling`` nor the file names a method, or a text is too long for the model.
            ValueError: ``pooling`` is unknown.

        Example:
            >>> llama, camel = model.embed(["A llama is an animal.", "So is a camel."], normalize=True)
            >>> float(llama @ camel)
        """
        import numpy as np

        is_one = isinstance(texts, str)
        texts = [text if isinstance(text, str) else "\t".join(text) for text in ([texts] if is_one else texts)]
        options = _options(pooling=pooling, normalize=normalize, plain=plain)
        with shown(progress) as report:
            found, vectors = self._native.embed(texts, options, report)
        if found == "none":
            return vectors[0] if is_one else vectors
        if is_one:
            return vectors[0][0]
        return np.concatenate(vectors) if vectors else np.zeros((0, 0), np.float32)

    def score(
        self,
        file: StrPath,
        format: Literal["hellaswag", "winogrande", "multiple-choice"] = "hellaswag",
        *,
        tasks: int | None = None,
        progress: Progress | None = None,
    ) -> Score:
        """Measures the accuracy on tasks with several answers, computed as by ``llama-perplexity``.

        Args:
            file: File of tasks, as ``llama-perplexity`` reads it.
            format: ``"hellaswag"``, ``"winogrande"`` or ``"multiple-choice"`` (MMLU, ARC, TruthfulQA and others).
            tasks: Number of randomly drawn tasks. Default: all.
            progress: Called with the number of finished tasks and of all tasks.

        Returns:
            The accuracy.

        Raises:
            GgufError: The file is invalid, or the model does not predict the next token.
            ValueError: The format is unknown.

        Example:
            >>> model.score("hellaswag_val_full.txt", tasks=400).accuracy
        """
        import json

        options = _options(tasks=os.fspath(file), format=format, n_tasks=tasks)
        with shown(progress) as report:
            scored = self._native.score(options, report)
        score = json.loads(scored)["score"]
        interval = tuple(score["interval"])
        return Score(score["accuracy"], score["error"], interval, score["n_right"], score["n_tasks"], score["chance"])

    def __repr__(self) -> str:
        return f"<Model {os.fspath(self.path)}: {self.architecture}>"


class ChatSession:
    """A chat of several turns with a :class:`Model`.

    Example:
        >>> chat = gt.Model("model-it-q4_k_m.gguf").chat()
        >>> for text in chat.ask("What is a llama?", stream=True):
        ...     print(text, end="", flush=True)
    """

    def __init__(self, native) -> None:
        self._native = native

    @overload
    def ask(self, message: str, *, stream: Literal[False] = False) -> str: ...
    @overload
    def ask(self, message: str, *, stream: Literal[True]) -> Generator[str, None, None]: ...
    def ask(self, message, *, stream=False):
        """Answers a message of the user. The message and the answer become part of the chat.

        Args:
            message: The message.
            stream: Return an iterator of pieces of the text while it is generated. Ctrl-C and closing the iterator stop the
                answer; the generated text stays in the chat.

        Returns:
            The answer, or with ``stream`` an iterator of texts. Reasoning is part of it, with the model's marks.

        Raises:
            GgufError: The template refuses the chat.
            ValueError: The chat fills the context of the model.

        Example:
            >>> chat.ask("And an alpaca?")
        """
        pieces = _pieces(self._native.ask(message))
        return pieces if stream else "".join(pieces)

    def reset(self) -> None:
        """Forgets all messages except the system message."""
        self._native.reset()

    def set_system(self, system: str | None) -> None:
        """Replaces the system message.

        Args:
            system: The message; None removes it.

        Example:
            >>> chat.set_system("Answer in French.")
        """
        self._native.set_system(system)
