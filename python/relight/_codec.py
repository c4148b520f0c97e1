"""How the values of steps become bytes and back: JSON, or what a codec of the program's own says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_PLAIN = (str, int, float, bool, type(None))
_ITERATORS = ("Iterator", "Iterable", "Generator", "AsyncIterator", "AsyncIterable", "AsyncGenerator")


class Codec(Protocol):
    """Writes and reads the values of steps. What it writes has to be JSON, so that every front can show it."""

    def encode(self, value: Any) -> bytes: ...

    def decode(self, recorded: bytes) -> Any: ...


class JsonCodec:
    """JSON as ``json`` writes it; objects with ``model_dump_json`` write themselves."""

    def encode(self, value: Any) -> bytes:
        dump = getattr(value, "model_dump_json", None)
        if dump is not None and not isinstance(value, type):
            return cast(str, dump()).encode()
        return _encode(value).encode()

    def decode(self, recorded: bytes) -> Any:
        return json.loads(recorded)


class ModelCodec:
    """A class with ``model_validate_json``, such as a pydantic model."""

    def __init__(self, model: Any) -> None:
        self._validate = cast("Callable[[bytes], Any]", model.model_validate_json)

    def encode(self, value: Any) -> bytes:
        return cast(str, value.model_dump_json()).encode()

    def decode(self, recorded: bytes) -> Any:
        return self._validate(recorded)


class _AdapterCodec:
    """A type that pydantic checks, such as a list of models or a model that may be missing."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def encode(self, value: Any) -> bytes:
        return cast(bytes, self._adapter.dump_json(value))

    def decode(self, recorded: bytes) -> Any:
        return self._adapter.validate_json(recorded)


JSON = JsonCodec()
_of_functions: WeakKeyDictionary[Any, Codec] = WeakKeyDictionary()


def codec_of(function: Any) -> Codec:
    """The codec of a step that names none: that of the models in its return annotation, else JSON."""
    function = getattr(function, "func", function)
    function = getattr(function, "__func__", function)
    annotations = getattr(function, "__annotations__", None)
    if not annotations or "return" not in annotations:
        return JSON
    try:
        known = _of_functions.get(function)
        if known is None:
            known = _of_functions[function] = _codec_of_type(_returned(function, annotations))
    except TypeError:
        # An object that cannot be a key.
        known = _codec_of_type(annotations["return"])
    return known


def _returned(function: Any, annotations: Mapping[str, Any]) -> Any:
    returns = annotations["return"]
    if isinstance(returns, str):
        try:
            return get_type_hints(function).get("return")
        except Exception:  # An annotation is not checked before it is needed.
            return getattr(function, "__globals__", {}).get(returns)
    return returns


def _codec_of_type(returns: Any) -> Codec:
    if isinstance(returns, type) and hasattr(returns, "model_validate_json"):
        return ModelCodec(returns)
    if not _has_model(returns):
        return JSON
    from pydantic import TypeAdapter

    # What a generator gives is recorded as a list of its items.
    if getattr(get_origin(returns), "__name__", "") in _ITERATORS:
        returns = list[get_args(returns)[0]]  # type: ignore[misc]
    return _AdapterCodec(TypeAdapter(returns))


def _has_model(returns: Any) -> bool:
    if hasattr(returns, "model_validate_json"):
        return True
    return any(_has_model(part) for part in get_args(returns))


def encoded(codec: Codec, value: Any) -> tuple[bytes, Any]:
    """What is recorded, and the value as a replay gives it: the first run must not differ from the next."""
    recorded = codec.encode(value)
    if codec is JSON and type(value) in _PLAIN:
        return recorded, value
    return recorded, codec.decode(recorded)


def encoded_item(codec: Codec, item: Any) -> Any:
    """One item of a stream, which is recorded as a list, as a replay gives it."""
    if codec is JSON and type(item) in _PLAIN:
        return item
    return codec.decode(codec.encode([item]))[0]
