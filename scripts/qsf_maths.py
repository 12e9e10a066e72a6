"""Norm, activations, positions and products of format-spec/MODEL.md, in float64. Names as in qsf_forward.py."""
import math
import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def norm(x, gain, bias, kind, epsilon, plus_one):
    """Over the last axis. Without gain tensor: left out."""
    if gain is None:
        return x
    if kind == "layer_norm":
        x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * (gain + 1 if plus_one else gain)
    return x if bias is None else x + bias


def act(x, name):
    if name == "gelu_erf":
        return x / 2 * (1 + erf(x / math.sqrt(2)))
    if name == "gelu_tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    if name == "silu":
        with np.errstate(over="ignore"):  # exp(-x) = inf gives the right limit, 0
            return x / (1 + np.exp(-x))
    return np.maximum(x, 0) ** (2 if name == "relu2" else 1)


def xielu(x, above, below):
    softplus = lambda a: np.logaddexp(0, a)
    return np.where(x > 0, softplus(above) * x * x, (0.5 + softplus(below)) * (np.expm1(np.minimum(x, -1e-6)) - x)) + x / 2


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def slopes(n):
    """ALiBi."""
    m = 1 << (n.bit_length() - 1)
    return np.array([2 ** (-8 * (h + 1) / m) for h in range(m)] + [2 ** (-8 * (2 * i + 1) / (2 * m)) for i in range(n - m)])


def frequencies(theta, scaling, d, length):
    """(f_i for i = 0 to d/2 - 1, attention_factor). `length` is L."""
    s = scaling or {"kind": None}
    kind, factor, i = s["kind"], s.get("factor"), np.arange(d // 2, dtype=np.float64)
    if kind == "dynamic" and length > s["original_positions"] and d > 2:
        theta = theta * (factor * length / s["original_positions"] - (factor - 1)) ** (d / (d - 2))
    f = theta ** (-2 * i / d)
    if kind == "linear":
        f = f / factor
    elif kind == "factors":
        f = f / np.array(s["factors"])
    elif kind == "long_rope":
        f = f / np.array(s["short_factors" if length <= s["original_positions"] else "long_factors"])
    elif kind == "yarn":
        bound = lambda r: d * math.log(s["original_positions"] / (2 * math.pi * r)) / (2 * math.log(theta))
        low, high = bound(s["beta_fast"]), bound(s["beta_slow"])
        if s["truncate"]:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, d - 1)
        if low == high:
            high += 0.001
        r = np.clip((i - low) / (high - low), 0, 1)
        f = f / factor * r + f * (1 - r)
    elif kind == "llama3":
        w, original, low, high = 2 * math.pi / f, s["original_positions"], s["low_freq_factor"], s["high_freq_factor"]
        t = (original / w - low) / (high - low)
        f = np.where(w < original / high, f, np.where(w > original / low, f / factor, (1 - t) * f / factor + t * f))
    return f, s.get("attention_factor", 1.0)


def rotate(x, f, attention_factor):
    """x: [positions, heads, head_dim]. Values from d = 2 * len(f) on stay as they are."""
    half = len(f)
    angle = np.arange(len(x))[:, None, None] * f
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:2 * half]
    return np.concatenate([(a * cos - b * sin) * attention_factor, (b * cos + a * sin) * attention_factor, x[..., 2 * half:]], axis=-1)


def sigmoid(x):
    with np.errstate(over="ignore"):  # exp(-x) = inf gives the right limit, 0
        return 1 / (1 + np.exp(-x))


def linear(t, kind, bias, x):
    y = x @ t[kind].T
    return y + t[bias][0] if bias in t else y
