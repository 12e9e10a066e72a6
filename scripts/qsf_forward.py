"""What a model computes, by format-spec/MODEL.md, literally and in float64. Slow: it is the text as a program.

`model` is the dict that read_qsf.py makes of META's `model`, with all defaults in it; tensors come as dicts of kind -> float64
array [rows, cols]. Names of variables are those of the text. Which tensors must be there and their shapes: qsf_tensors.py.
"""
import math
import numpy as np

from qsf_layers import ONES, attention, feed_forward, mixer
from qsf_maths import act, linear, norm
from qsf_tensors import attends, is_recurrent, parts, placed


def magnitude(x):
    return np.sqrt((x * x).mean(axis=-1, keepdims=True))


def as_large(y, x):
    """y with the magnitude of x."""
    return y * magnitude(x) / np.sqrt(np.maximum((y * y).mean(axis=-1, keepdims=True), 1e-5))


def begin_streams(m, rest, x):
    parts = rest[75].reshape(m["streams"] - 1, m["hidden"], -1)
    return np.stack([x, *(as_large(x @ part.T, x) for part in parts)])


def shares(m, t, x):
    """u of section 3.2, a row for each token."""
    r = norm(x, t[139][0], None, "rms_norm", m["norm"]["epsilon"], m["norm"]["gain_plus_one"]) / m["hidden"]
    return np.tanh(r @ t[138].reshape(m["streams"], -1).T)


def predict(m, t, streams):
    s = m["streams"]
    p = np.einsum("yxk,ik->iyx", t[140].reshape(s, s, s), shares(m, t, streams[0]))
    return streams + np.einsum("iyx,xih->yih", p, streams)


def end_streams(m, rest, streams):
    parts = rest[76].reshape(m["streams"] - 1, m["hidden"], -1)
    back = [as_large(x @ part.T, streams[0]) for x, part in zip(streams[1:], parts)]
    return (streams[0] + sum(back)) / m["streams"]


def logits(m, ids, rest, layers, length=None, last=1):
    """Logits [last, vocab] of the last positions. `rest`: the tensors of no layer; `layers`: those of layer 0, 1, ...
    `length`: L of MODEL.md, the length of the context that the sequence is run with; without it, that of the sequence."""
    length = len(ids) if length is None else length
    n = m["norm"]
    ones = np.full(m["hidden"], 0.0 if n["gain_plus_one"] else 1.0) if n["without_gain"] else None
    gain_bias = lambda x, t, gain, bias: norm(x, t[gain][0] if gain in t else ones, t[bias][0] if bias in t else None, n["kind"], n["epsilon"], n["gain_plus_one"])
    x = rest[69][ids]
    if m["embedding_scale"] is not None:
        x = x * m["embedding_scale"]
    if m["position"]["kind"] == "learned":
        x = x + rest[68][:len(ids)]
    if m["embedding_norm"]:
        x = gain_bias(x, rest, 70, 71)
    scale = 1 if m["residual_scale"] is None else m["residual_scale"]
    kept, ple, w = {}, m["per_layer_embedding"], len(rest[74][0]) if 74 in rest else 0
    if ple:
        cut = lambda y: y.reshape(len(ids), -1, w)
        rows = rest[72][np.where(np.array(ids) < ple["vocab"], ids, 0)]
        inputs = (norm(cut(x @ rest[73].T / math.sqrt(m["hidden"])), rest[74][0], None, "rms_norm", n["epsilon"], n["gain_plus_one"])
                  + cut(rows * math.sqrt(w))) / math.sqrt(2)
    streams = begin_streams(m, rest, x) if m["streams"] else None
    for layer, t in enumerate(layers):
        if streams is not None:
            predicted = streams = predict(m, t, streams)
            x = streams[0]
        if 13 in t:  # up bias, then down bias
            t = {**t, 21: t[13][:, :m["ffn"]], 22: t[13][:, m["ffn"]:]}
        placement = placed(m, layer)
        post = placement in ("post", "pre_and_post")
        mixes, feeds = parts(m, layer)
        a = x if placement == "post" else gain_bias(x, t, 7, 18)
        if not mixes:
            y = np.zeros_like(x)
        else:
            y, factors = np.zeros_like(x), m["multipliers"] or ONES
            if is_recurrent(m, layer):
                y = y + mixer(m, t, a) * factors["mixer"]
            if attends(m, layer):
                y = y + attention(m, t, layer, a, length, kept) * factors["attention"]
        if post:
            y = gain_bias(y, t, 16, None)
        y = y * scale
        if m["laurel"]:
            low = norm(a @ t[143].T @ t[144].T, t[145][0], None, "rms_norm", n["epsilon"], n["gain_plus_one"])
            y = (x + y + a + low) / math.sqrt(2) - x
        if m["residual"] == "parallel_one_norm":
            f = a
        elif m["residual"] == "parallel":
            f = gain_bias(x, t, 8, 19)
        else:
            f = x + y if placement == "post" else gain_bias(x + y, t, 8, 19)
        z = feed_forward(m, t, layer, f, x + y) if feeds else np.zeros_like(x)
        if post:
            z = gain_bias(z, t, 17, None)
        x = x + y + z * scale
        if streams is not None:
            c = shares(m, t, x) @ t[141].reshape(m["streams"], -1).T + 1
            streams = predicted + c.T[:, :, None] * (x - predicted[0])
            x = streams[0] * t[142][0]
        if ple:
            added = norm((act(x @ t[58].T, m["activation"]) * inputs[:, layer]) @ t[59].T, t[60][0], None, "rms_norm", n["epsilon"], n["gain_plus_one"])
            x = x + added
        if streams is not None:
            streams = np.concatenate([streams[:1], streams[1:] + added])
        if m["layer_scale"]:
            x = x * t[61][0, 0]
    if streams is not None:
        x = end_streams(m, rest, streams)
    z = gain_bias(x[-last:], rest, 64, 65)
    out = linear({**rest, 66: rest[69]} if m["tied_head"] else rest, 66, 67, z)
    if m["logit_scale"] is not None:
        out = out * m["logit_scale"]
    cap = m["logit_softcap"]
    return out if cap is None else cap * np.tanh(out / cap)
