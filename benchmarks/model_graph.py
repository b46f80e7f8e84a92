"""Writes `graph.onnx`: how the bundled model computes, without its weights, which stay in the model's own file.

The model comes with weights of 8 bits that its graph turns into floating point before it multiplies. The graph made
here multiplies integers: it rounds what goes into each matrix to 8 bits first, with the range of the text at hand.
Needs the package `onnx`. Usage: python -m benchmarks.model_graph
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scrimshaw.search.embedders import GRAPH, PACKAGE

LAYERS, HEADS = 6, 12
FINE_LAYERS = (1, 2, 3)  # in which rounding what enters the wide matrix costs most; in all it takes a tenth longer
OWN, MICROSOFT = "", "com.microsoft"
EPSILON = 1e-12
EMBEDDINGS = "inner.embeddings."


def locate_weights(raw: bytes, tensors: Any) -> Iterator[Any]:
    """Each weight as a reference to its bytes in the model's file."""
    import onnx

    for tensor in tensors:
        start = raw.find(tensor.raw_data)
        if len(tensor.raw_data) < 64 or raw.find(tensor.raw_data, start + 1) >= 0:
            continue  # a constant of the graph
        place = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        place.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": "model.onnx", "offset": start, "length": len(tensor.raw_data)}.items():
            place.external_data.add(key=key, value=str(value))
        yield place


def node(op: str, inputs: list[str], *outputs: str, domain: str = OWN, **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(op, inputs, list(outputs), domain=domain, **attributes)


def quantize(name: str) -> Any:
    return node("DynamicQuantizeLinear", [name], f"{name}.q", f"{name}.scale", f"{name}.zero")


def second_name(matrix: str) -> str:
    """The same weights under another name: where onnxruntime converts weights, each may be used once."""
    return f"{matrix}_again"


def multiply(name: str, matrix: str, output: str) -> Any:
    columns = f"{matrix.partition('_q')[0]}_columns"
    inputs = [f"{name}.q", matrix, f"{name}.scale", columns, f"{name}.zero"]
    return node("MatMulIntegerToFloat", inputs, output, domain=MICROSOFT)


def multiply_finely(name: str, matrix: str, output: str) -> Iterator[Any]:
    """What rounding leaves over is multiplied as well: of few large numbers the many small ones lose too much."""
    yield node("DequantizeLinear", [f"{name}.q", f"{name}.scale", f"{name}.zero"], f"{name}.near")
    yield node("Sub", [name, f"{name}.near"], f"{name}.rest")
    yield quantize(f"{name}.rest")
    yield multiply(name, matrix, f"{output}.near")
    yield multiply(f"{name}.rest", second_name(matrix), f"{output}.rest")
    yield node("Add", [f"{output}.near", f"{output}.rest"], output)


def normalise(inputs: list[str], part: str, output: str) -> Any:
    inputs = [*inputs, f"{part}.LayerNorm.weight", f"{part}.LayerNorm.bias", f"{part}.dense.bias"]
    return node("SkipLayerNormalization", inputs, output, domain=MICROSOFT, epsilon=EPSILON)


def make_nodes(matrices: Iterator[str]) -> Iterator[Any]:
    """The steps from the ids of a text to a row for each of its tokens; `matrices` are the weights in order."""
    word, position = f"{EMBEDDINGS}word_embeddings.weight", f"{EMBEDDINGS}position_embeddings.weight"
    yield node("Gather", [f"{word}_q", "input_ids"], "word.q")
    yield node("Gather", [f"{word}_scale", "input_ids"], "word.scale")
    yield node("Shape", ["input_ids"], "length", start=1, end=2)
    for part in ("q", "scale"):
        yield node("Slice", [f"{position}_{part}", "zero", "length", "zero"], f"position.{part}")
    for name in ("word", "position"):
        yield node("Cast", [f"{name}.q"], f"{name}.f", to=1)
        yield node("Mul", [f"{name}.f", f"{name}.scale"], f"{name}.row")
    yield node("Gather", [f"{EMBEDDINGS}token_type_embeddings.weight", "zero"], "kind.row")
    yield node("Add", ["position.row", "kind.row"], "place.row")
    yield node("Add", ["word.row", "place.row"], "row")
    scale = [f"{EMBEDDINGS}LayerNorm.weight", f"{EMBEDDINGS}LayerNorm.bias"]
    yield node("LayerNormalization", ["row", *scale], "hidden0", epsilon=EPSILON)
    for layer in range(LAYERS):
        part, before = f"inner.encoder.layer.{layer}.", f"hidden{layer}"
        after = "last_hidden_state" if layer == LAYERS - 1 else f"hidden{layer + 1}"
        heads, mixed, met, wide, bent, narrow = (f"{each}{layer}" for each in ("h", "m", "n", "w", "g", "d"))
        yield quantize(before)
        names = ("query", "key", "value")
        yield from (multiply(before, next(matrices), f"{name}{layer}") for name in names)
        yield node("Concat", [f"{part}attention.self.{name}.bias" for name in names], f"bias{layer}", axis=0)
        inputs = [*(f"{name}{layer}" for name in names), f"bias{layer}"]
        yield node("MultiHeadAttention", inputs, heads, domain=MICROSOFT, num_heads=HEADS)
        yield quantize(heads)
        yield multiply(heads, next(matrices), mixed)
        yield normalise([mixed, before], f"{part}attention.output", met)
        yield quantize(met)
        matrix = next(matrices)
        yield from multiply_finely(met, matrix, wide) if layer in FINE_LAYERS else [multiply(met, matrix, wide)]
        yield node("BiasGelu", [wide, f"{part}intermediate.dense.bias"], bent, domain=MICROSOFT)
        yield quantize(bent)
        yield from multiply_finely(bent, next(matrices), narrow)
        yield normalise([narrow, met], f"{part}output", after)


def make_graph() -> bytes:
    """The graph as a file of the format."""
    import onnx
    from onnx import TensorProto, helper

    found = find_spec(PACKAGE)
    raw = Path((found and found.origin) or PACKAGE).with_name("model.onnx").read_bytes()
    tensors = onnx.load_model_from_string(raw).graph.initializer
    weights = {tensor.name: tensor for tensor in locate_weights(raw, tensors) if "position_ids" not in tensor.name}
    matrices = [name for name in weights if name.startswith("val_") and name.endswith("_q")]
    for name in matrices:  # the scales of its columns, which lie there as one row
        scale = weights.pop(name.replace("_q", "_scale"))
        scale.name, scale.dims[:] = name.replace("_q", "_columns"), scale.dims[1:]
        weights[scale.name] = scale
    nodes = [*make_nodes(iter(matrices))]
    used = {name for each in nodes for name in each.input}
    for name in matrices:
        if second_name(name) in used:
            again = TensorProto()
            again.CopyFrom(weights[name])
            again.name = second_name(name)
            weights[again.name] = again
    zero = helper.make_tensor("zero", TensorProto.INT64, [1], [0])
    graph = helper.make_graph(
        nodes,
        "minilm",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [1, "tokens", 384])],
        [zero, *weights.values()],
    )
    versions = [helper.make_opsetid(OWN, 17), helper.make_opsetid(MICROSOFT, 1)]
    made: bytes = helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString(deterministic=True)
    return made


if __name__ == "__main__":
    GRAPH.write_bytes(make_graph())
