"""What a model computes, by format-spec/MODEL.md, literally and in float64. Slow: it is the text as a program.

`model` is the dict that read_qsf.py makes of META's `model`, with all defaults in it; tensors come as dicts of kind -> float64
array [rows, cols]. Names of variables are those of the text. Which tensors must be there and their shapes: `tensor_kinds`.
"""
import math
import statistics
import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


# ---------------------------------------------------------------- Shapes of a layer

def windowed(m, layer):
    return bool(m["sliding_window"]) and layer in m["sliding_window"]["layers"]


def shape(m, layer):
    """(key/value heads, width of a head, whether values are made by kind 1), of a layer."""
    x = m["full_attention"]
    if x and not windowed(m, layer):
        return x["kv_heads"], x["head_dim"], x["keys_are_values"]
    return m["kv_heads"], m["head_dim"], False


def source(m, layer):
    """The layer whose keys and values `layer` uses."""
    own = m["layers"] - (m["shared_kv"]["layers"] if m["shared_kv"] else 0)
    return layer if layer < own else max(i for i in range(own) if windowed(m, i) == windowed(m, layer))


# ---------------------------------------------------------------- Which tensors a model has

def tensor_kinds(m, layer=None):
    """(must, may): kind -> shape, of one layer or, without `layer`, of the parts that are no layer."""
    kv_heads, d, keys_are_values = shape(m, layer or 0)
    q, kv, h, f, v = m["heads"] * d, kv_heads * d, m["hidden"], m["ffn"], m["vocab"]
    ple = m["per_layer_embedding"]
    biased = m["norm"]["kind"] == "layer_norm"
    if layer is None:
        must, may = {69: (v, h)}, {67: (1, v)}
        if not m["norm"]["without_gain"]:
            must[64] = 1, h
            if biased:
                may[65] = 1, h
        if not m["tied_head"]:
            must[66] = v, h
        if m["position"]["kind"] == "learned":
            must[68] = m["max_positions"], h
        if m["embedding_norm"]:
            must[70] = 1, h
            if biased:
                may[71] = 1, h
        if ple:
            n, w = m["layers"] * ple["width"], ple["width"]
            must.update({72: (ple["vocab"], n), 73: (n, h), 74: (1, w)})
        if m["streams"]:
            must[75] = must[76] = (m["streams"] - 1) * h, h
        return must, may
    recurrent, x = is_recurrent(m, layer), m["latent"]
    mixes, feeds = parts(m, layer)
    shares = source(m, layer) != layer
    if shares and m["shared_kv"]["ffn"] is not None:
        f = m["shared_kv"]["ffn"]
    if not mixes:
        must, may = {}, {}
    elif not attends(m, layer):
        must, may = mixer_kinds(m["recurrent"], h)
    elif x:
        r, heads = x["shared_dim"], m["heads"]
        must = {0: (q, h), 3: (h, heads * x["value_dim"]), 55: (r + x["kv_rank"], h), 15: (1, x["kv_rank"]),
                56: (heads * x["kv_rank"], m["head_dim"] - r), 57: (heads * x["value_dim"], x["kv_rank"])}
        if x["q_rank"]:
            must.update({0: (q, x["q_rank"]), 54: (x["q_rank"], h), 14: (1, x["q_rank"])})
        may = {12: (1, h)}
    else:
        v_dim = m["value_heads"]["dim"] if m["value_heads"] else d
        must = {0: (q, h), 1: (kv, h), 2: (kv_heads * v_dim, h), 3: (h, m["heads"] * v_dim)}
        may = {9: (1, q), 10: (1, kv), 11: (1, kv_heads * v_dim), 12: (1, h)}
        for kind in (1, 2) if shares else (2,) if keys_are_values else ():
            del must[kind], may[9 + kind]
        if m["attention_gate"]:
            must[53] = q, h
        if m["sub_norms"]:
            must[62] = 1, m["heads"] * v_dim
        if has_sinks(m, layer):
            must[30] = 1, m["heads"]
    if recurrent and attends(m, layer):
        beside = mixer_kinds(m["recurrent"], h)
        must.update(beside[0])
        may.update(beside[1])
    placement, gains = placed(m, layer), not m["norm"]["without_gain"]
    norms = {} if placement == "post" or not gains else {7: 18} if m["residual"] == "parallel_one_norm" else {7: 18, 8: 19}
    norms = {gain: bias for gain, bias in norms.items() if (mixes if gain == 7 else feeds)}
    for gain, bias in norms.items():
        must[gain] = 1, h
        if biased:
            may[bias] = 1, h
    if placement != "pre" and gains:
        must[16] = must[17] = 1, h
    if ple:
        must.update({58: (ple["width"], h), 59: (h, ple["width"]), 60: (1, h)})
    if m["layer_scale"]:
        must[61] = 1, 1
    if m["streams"]:
        s = m["streams"]
        must.update({138: (1, s * h), 139: (1, h), 140: (1, s ** 3), 141: (1, s ** 2), 142: (1, h)})
    if m["laurel"]:
        must.update({143: (m["laurel"], h), 144: (h, m["laurel"]), 145: (1, h)})
    if m["qk_norm"] not in (None, "rotated_head_plain") and attends(m, layer):
        head = m["qk_norm"] in ("head", "rotated_head")
        must[14], must[15] = (1, d if head else q), (1, d if head else kv)
        if shares:
            del must[15]
    if not feeds:
        return must, may
    e = m["experts"]
    if e and layer not in e["dense_layers"]:
        inner, outer = e["count"] * e["ffn"], e["count"] * h
        must.update({23: (e["count"], h), 25: (inner, h), 26: (outer, e["ffn"])})
        may.update({32: (1, e["count"]), 35: (1, inner), 36: (1, outer)})
        if m["gated_ffn"]:
            must[24], may[34] = (inner, h), (1, inner)
        if e["choice_bias"]:
            must[33] = 1, e["count"]
        if e["shared"]:
            s = e["shared"]["ffn"]
            must.update({28: (s, h), 29: (h, s)})
            if m["gated_ffn"]:
                must[27] = s, h
            if e["shared"]["gated"]:
                must[37] = 1, h
        if not e["beside_ffn"]:
            return must, may
        must.update({128: (1, h), 129: (1, h), 130: (1, h), 131: (1, h), 132: (1, e["count"])})
    must[5], must[6] = (f, h), (h, f)
    if m["sub_norms"]:
        must[63] = 1, f
    if m["activation"] == "xielu":
        must[38] = must[39] = 1, 1
    may.update({13: (1, f + h), 21: (1, f), 22: (1, h)})
    if m["gated_ffn"]:
        must[4], may[20] = (f, h), (1, f)
    return must, may


def has_sinks(m, layer):
    return m["attention_sinks"] and (windowed(m, layer) or not m["window_sinks"])


def parts(m, layer):
    """Whether a layer has a mixer, and whether it has a feed-forward."""
    halves = m["half_layers"] or {"mixer": [], "feed_forward": []}
    return layer not in halves["feed_forward"], layer not in halves["mixer"]


def is_recurrent(m, layer):
    return m["recurrent"] is not None and layer in m["recurrent"]["layers"]


def placed(m, layer):
    placement = m["norm"]["placement"]
    return placement if placement != "by_mixer" else "pre" if is_recurrent(m, layer) else "post"


def attends(m, layer):
    return parts(m, layer)[0] and (not is_recurrent(m, layer) or m["recurrent"]["beside_attention"])


def mixer_kinds(r, h):
    """(must, may) of the mixer of a recurrent layer."""
    m = r["mixer"]
    if m["kind"] == "short_conv":
        return {40: (3 * h, h), 44: (h, h), 45: (1, h * r["taps"])}, {46: (1, h), 51: (1, 3 * h), 52: (1, h)}
    if m["kind"] == "mamba2":
        heads, outputs = m["heads"], m["heads"] * m["head_dim"]
        channels = outputs + 2 * m["groups"] * m["state"]
        return {40: (channels, h), 41: (outputs, h), 42: (heads, h), 44: (h, outputs), 45: (1, channels * r["taps"]), 47: (1, heads),
                48: (1, heads), 49: (1, heads), **({} if r["without_norm"] else {50: (1, outputs)})}, {46: (1, channels)}
    if m["kind"] == "mamba1":
        w, s, r1 = m["width"], m["state"], m["rank"]
        gains = {135: (1, r1), 136: (1, s), 137: (1, s)} if m["norm_gains"] else {}
        return {40: (w, h), 41: (w, h), 44: (h, w), 45: (1, w * r["taps"]), 47: (1, w * s), 48: (1, w), 49: (1, w),
                133: (r1 + 2 * s, w), 134: (w, r1), **gains}, {46: (1, w)}
    heads, outputs = m["value_heads"], m["value_heads"] * m["value_dim"]
    channels = 2 * m["key_heads"] * m["key_dim"] + outputs
    kinds = {40: (channels, h), 41: (outputs, h), 42: (heads, h), 43: (heads, h), 44: (h, outputs), 45: (1, channels * r["taps"]),
             47: (1, heads), 48: (1, heads), 50: (1, m["value_dim"])}
    if r["channel_rank"]:
        n, steps = r["channel_rank"], heads * m["key_dim"]
        kinds.update({41: (outputs, n), 42: (n, h), 48: (1, steps), 134: (steps, n), 146: (n, h)})
    return kinds, {}


# ---------------------------------------------------------------- Norm, activation, positions

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


# ---------------------------------------------------------------- Layers

def linear(t, kind, bias, x):
    y = x @ t[kind].T
    return y + t[bias][0] if bias in t else y


def grown(m, q, rotated=True):
    """Queries times what `query_growth` makes of their positions."""
    g = m["query_growth"]
    if g is None or rotated and g["unrotated_only"]:
        return q
    at = np.arange(len(q)) + g["from_one"]
    return q * (1 + g["factor"] * np.log1p(at // g["original_positions"]))[:, None, None]


def latent_attention(m, t, layer, a, length):
    """Of a model with `latent`."""
    x, positions, heads, d = m["latent"], len(a), m["heads"], m["head_dim"]
    r = x["shared_dim"]
    rms = lambda y, kind: norm(y, t[kind][0], None, "rms_norm", x["norm_epsilon"], m["norm"]["gain_plus_one"])
    q = (rms(a @ t[54].T, 14) if x["q_rank"] else a) @ t[0].T
    q, kept = q.reshape(positions, heads, d), a @ t[55].T
    k, c = kept[:, None, :r], rms(kept[:, r:], 15)
    if layer not in m["position"]["unrotated_layers"]:
        f, factor = frequencies(m["position"]["theta"], m["position"]["scaling"], r, length)
        q, k = rotate(q, f, factor), rotate(k, f, factor)
    q, k = grown(m, q), k[:, 0]
    up_k, up_v = (t[kind].reshape(heads, -1, t[kind].shape[1]) for kind in (56, 57))
    s = np.einsum("ihr,jr->hij", q[..., :r], k) + np.einsum("ihn,hcn,jc->hij", q[..., r:], up_k, c)
    s = s * (1 / math.sqrt(d) if m["attention_scale"] is None else m["attention_scale"])
    if m["attention_softcap"] is not None:
        s = m["attention_softcap"] * np.tanh(s / m["attention_softcap"])
    seen = np.arange(positions)[:, None] >= np.arange(positions)
    o = np.einsum("hij,jc,hvc->ihv", softmax(np.where(seen, s, -np.inf)), c, up_v)
    return linear(t, 3, 12, o.reshape(positions, -1))


def attention(m, t, layer, a, length, kept):
    """From a to W3 o + b12. `kept`: k and v of earlier layers, for those that share them."""
    if m["latent"]:
        return latent_attention(m, t, layer, a, length)
    kv_heads, d, keys_are_values = shape(m, layer)
    positions, heads, shares = len(a), m["heads"], source(m, layer) != layer
    q, k, v = (linear(t, kind, 9 + kind, a) for kind in (0, 0 if shares else 1, 0 if shares else 1 if keys_are_values else 2))
    cut = lambda x: x.reshape(positions, -1, d)
    rms = lambda x, kind: norm(x, t[kind][0], None, "rms_norm", m["norm"]["epsilon"], m["norm"]["gain_plus_one"])
    k_norm = 14 if shares else 15
    if m["qk_norm"] == "projection":
        q, k = rms(q, 14), rms(k, k_norm)
    q, k, v = cut(q), cut(k), cut(v) if shares or not m["value_heads"] else v.reshape(positions, kv_heads, -1)
    if m["qk_norm"] == "head":
        q, k = rms(q, 14), rms(k, k_norm)
    if m["qk_norm"] == "heads_apart":
        apart = lambda x, kind: norm(x, t[kind].reshape(-1, d), None, "layer_norm", m["norm"]["epsilon"], m["norm"]["gain_plus_one"])
        q, k = apart(q, 14), apart(k, k_norm)
    if m["qkv_clip"] is not None:
        q, k, v = (np.clip(x, -m["qkv_clip"], m["qkv_clip"]) for x in (q, k, v))
    if m["value_heads"] and m["value_heads"]["scale"] is not None:
        v = v * m["value_heads"]["scale"]
    if m["value_norm"]:
        v = norm(v, np.zeros(d) if m["norm"]["gain_plus_one"] else np.ones(d), None, "rms_norm", m["norm"]["epsilon"], m["norm"]["gain_plus_one"])
    window, p = windowed(m, layer), m["position"]
    rotated = p["kind"] == "rope" and layer not in p["unrotated_layers"]
    if rotated:
        theta, scaling = p["theta"], p["scaling"]
        if window and p["sliding_theta"] is not None:
            theta, scaling = p["sliding_theta"], None
        f, factor = frequencies(theta, scaling, d if p["dims"] is None else p["dims"], length)
        q, k = rotate(q, f, factor), rotate(k, f, factor)
    if m["qk_norm"] == "rotated_head":
        q, k = rms(q, 14), rms(k, k_norm)
    if m["qk_norm"] == "rotated_head_plain" and rotated:
        q, k = (norm(x, np.ones(d), None, "rms_norm", m["norm"]["epsilon"], False) for x in (q, k))
    q = grown(m, q, rotated)
    if shares:
        k, v = kept[source(m, layer)]
    kept[layer] = k, v
    group = heads // kv_heads
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)  # head h: key/value head floor(h / group)
    scale = 1 / math.sqrt(d) if m["attention_scale"] is None else m["attention_scale"]
    s = np.einsum("ihd,jhd->hij", q, k) * scale
    cap = m["attention_softcap"]
    if cap is not None:
        s = cap * np.tanh(s / cap)
    distance = np.arange(positions)[:, None] - np.arange(positions)
    if p["kind"] == "alibi":
        s = s - p["slope_scale"] * slopes(heads)[:, None, None] * distance
    seen = distance >= 0
    if window:
        size, at = m["sliding_window"]["size"], np.arange(positions)
        seen &= at[:, None] // size == at // size if m["window_chunks"] else distance < size
    s = np.where(seen, s, -np.inf)
    if has_sinks(m, layer):
        s = np.concatenate([s, np.broadcast_to(t[30][0][:, None, None], (heads, positions, 1))], axis=-1)
    o = np.einsum("hij,jhd->ihd", softmax(s)[:, :, :positions], v).reshape(positions, -1)
    if m["attention_gate"]:
        o = o * sigmoid(a @ t[53].T)
    if m["sub_norms"]:
        o = norm(o, t[62][0], None, "rms_norm", m["norm"]["epsilon"], m["norm"]["gain_plus_one"])
    return linear(t, 3, 12, o)


def conv(r, t, u):
    taps = t[45].reshape(-1, r["taps"])
    padded = np.concatenate([np.zeros((r["taps"] - 1, u.shape[1])), u])
    out = sum(padded[j:j + len(u)] * taps[:, j] for j in range(r["taps"]))
    return out + t[46][0] if 46 in t else out


def mixer(m, t, a):
    """Section 7."""
    r = m["recurrent"]
    if r["mixer"]["kind"] == "short_conv":
        b, c, x = np.split(linear(t, 40, 51, a), 3, axis=1)
        return linear(t, 44, 52, c * conv(r, t, b * x))
    return dict(mamba1=mamba1, mamba2=mamba2, gated_delta=gated_delta)[r["mixer"]["kind"]](m, r, r["mixer"], t, a)


def mamba1(m, r, s, t, a):
    x, rank, n = act(conv(r, t, a @ t[40].T), "silu"), s["rank"], s["state"]
    parts = np.split(x @ t[133].T, [rank, rank + n], axis=1)
    if s["norm_epsilon"] is not None:
        gains = [t[kind][0] if s["norm_gains"] else np.ones(part.shape[1]) for kind, part in zip((135, 136, 137), parts)]
        parts = [norm(part, gain, None, "rms_norm", s["norm_epsilon"], False) for part, gain in zip(parts, gains)]
    d, b, c = parts
    d = np.log1p(np.exp(d @ t[134].T + t[48][0]))
    rates, state, out = t[47].reshape(-1, n), np.zeros((s["width"], n)), []
    for i in range(len(a)):
        state = state * np.exp(rates * d[i][:, None]) + (d[i] * x[i])[:, None] * b[i]
        out.append(state @ c[i] + t[49][0] * x[i])
    return linear(t, 44, 52, np.array(out) * act(a @ t[41].T, "silu"))


ONES = dict(attention=1, mixer=1, mixer_gate=1, mixer_inputs=[1, 1, 1], mixer_step=1, ffn_gate=1, ffn=1)


def mamba2(m, r, s, t, a):
    heads, groups, inner = s["heads"], s["groups"], s["heads"] * s["head_dim"]
    f = m["multipliers"] or ONES
    of_inputs = np.repeat(f["mixer_inputs"], [inner, groups * s["state"], groups * s["state"]])
    u = act(conv(r, t, a @ t[40].T * of_inputs), "silu")
    x, shared = u[:, :inner].reshape(len(a), heads, -1), u[:, inner:].reshape(len(a), 2, groups, -1)
    b, c = (np.repeat(shared[:, i], heads // groups, axis=1) for i in (0, 1))
    d = np.log1p(np.exp(a @ t[42].T * f["mixer_step"] + t[48][0]))
    rate = np.exp(t[47][0] * d)
    state, out = np.zeros((heads, s["head_dim"], s["state"])), []
    for i in range(len(a)):
        state = state * rate[i][:, None, None] + (d[i][:, None] * x[i])[:, :, None] * b[i][:, None, :]
        out.append(np.einsum("hpn,hn->hp", state, c[i]) + t[49][0][:, None] * x[i])
    o = np.array(out).reshape(len(a), -1) * act(a @ t[41].T * f["mixer_gate"], "silu")
    if not r["without_norm"]:
        o = norm(o.reshape(len(a), groups, -1), t[50][0].reshape(groups, -1), None, "rms_norm", m["norm"]["epsilon"], False)
    return linear(t, 44, 52, o.reshape(len(a), -1))


def gated_delta(m, r, x, t, a):
    heads, value_dim, d, keys = x["value_heads"], x["value_dim"], x["key_dim"], x["key_heads"] * x["key_dim"]
    u = act(conv(r, t, a @ t[40].T), "silu")
    q, k, v = u[:, :keys], u[:, keys:2 * keys], u[:, 2 * keys:].reshape(len(a), heads, value_dim)
    unit = lambda x: x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-6)
    q, k = unit(q.reshape(len(a), -1, d)) / math.sqrt(d), unit(k.reshape(len(a), -1, d))
    q, k = np.repeat(q, heads // x["key_heads"], axis=1), np.repeat(k, heads // x["key_heads"], axis=1)
    if r["channel_rank"]:
        d_step = (a @ t[42].T @ t[134].T + t[48][0]).reshape(len(a), heads, d)
        rate = np.exp(t[47][0][:, None] * np.logaddexp(0, d_step))
        gate = sigmoid(a @ t[146].T @ t[41].T)
    else:
        rate = np.exp(t[47][0] * np.log1p(np.exp(a @ t[42].T + t[48][0])))[:, :, None]
        gate = act(a @ t[41].T, "silu")
    replaced = sigmoid(a @ t[43].T) * (r["beta_scale"] or 1)
    state, out = np.zeros((heads, value_dim, d)), []
    for i in range(len(a)):
        state = state * rate[i][:, None, :]
        change = replaced[i][:, None] * (v[i] - np.einsum("hvd,hd->hv", state, k[i]))
        state = state + change[:, :, None] * k[i][:, None, :]
        out.append(np.einsum("hvd,hd->hv", state, q[i]))
    o = norm(np.array(out), t[50][0], None, "rms_norm", r["norm_epsilon"] or m["norm"]["epsilon"], False)
    return linear(t, 44, 52, o.reshape(len(a), -1) * gate)


def sigmoid(x):
    with np.errstate(over="ignore"):  # exp(-x) = inf gives the right limit, 0
        return 1 / (1 + np.exp(-x))


def cut_off(g, sparsity):
    """Gates of which about the part `sparsity` becomes 0."""
    above = g.mean(axis=-1, keepdims=True) + g.std(axis=-1, keepdims=True) * statistics.NormalDist().inv_cdf(sparsity)
    return np.maximum(g - above, 0)


def mlp(m, t, f, sparsity=0):
    """A feed-forward of kinds 4 to 6 and 20 to 22."""
    u, name, clip, factors = linear(t, 5, 21, f), m["activation"], m["gate_clip"], m["multipliers"] or ONES
    if clip is not None:
        gate = np.minimum(linear(t, 4, 20, f), clip["limit"])
        u = gate * sigmoid(clip["alpha"] * gate) * (1 + np.clip(u, -clip["limit"], clip["limit"]))
    elif name == "xielu":
        u = xielu(u, t[38][0, 0], t[39][0, 0])
    else:
        gate = linear(t, 4, 20, f) * factors["ffn_gate"] if m["gated_ffn"] else None
        gate = cut_off(gate, sparsity) if sparsity > 0 else gate
        u = act(u, name) if gate is None else act(gate, name) * u
    if m["sub_norms"]:
        u = norm(u, t[63][0], None, "rms_norm", m["norm"]["epsilon"], m["norm"]["gain_plus_one"])
    return linear(t, 6, 22, u) * factors["ffn"]


def sparse_mixer(e, scores):
    p = np.zeros_like(scores)
    for row, s in enumerate(scores):
        out = np.zeros(len(s), bool)
        for _ in range(e["used"]):
            left = np.where(out, -np.inf, s)
            best = left.argmax()
            near = ~out & ~((s[best] - s) / np.maximum(np.abs(s), s[best]) > e["margin"])
            p[row, best] = 1 / np.exp(s[near] - s[best]).sum()
            out[best] = True
    return p


def route(e, t, f):
    """Weights of all experts, 0 where they are not chosen."""
    scores = linear(t, 23, 32, f)
    if e["score"] == "sparse_mixer":
        return sparse_mixer(e, scores)
    p = softmax(scores) if e["score"] == "softmax" else sigmoid(scores)
    c = p + t[33][0] if e["choice_bias"] else p.copy()
    if e["groups"]:
        g = e["groups"]
        parts = c.reshape(len(c), g["count"], -1)
        score = np.sort(parts, axis=-1)[..., -g["best"]:].sum(axis=-1)
        worst = np.argsort(-score, axis=-1, kind="stable")[:, g["used"]:]
        np.put_along_axis(parts, worst[..., None], -np.inf, axis=1)
    others = np.argsort(-c, axis=-1, kind="stable")[:, e["used"]:]  # stable: of equal ones the first stays
    np.put_along_axis(p, others, 0, axis=-1)
    if e["normalize_weights"]:
        p = p / p.sum(axis=-1, keepdims=True)
    return p if e["weight_scale"] is None else p * e["weight_scale"]


def feed_forward(m, t, layer, f, x):
    """`f`: the residual stream `x`, normalized."""
    e = m["experts"]
    if not e or layer in e["dense_layers"]:
        return mlp(m, t, f, m["gate_sparsity"][layer] if m["gate_sparsity"] else 0)
    if e["beside_ffn"]:
        epsilon = m["norm"]["epsilon"]
        gain = lambda x, kind: norm(x, t[kind][0], None, "rms_norm", epsilon, m["norm"]["gain_plus_one"])
        p = route(e, t, norm(x, t[128][0], None, "rms_norm", epsilon, False) / math.sqrt(m["hidden"])) * t[132]
        return gain(mlp(m, t, f), 130) + gain(of_experts(m, t, p, gain(x, 129)), 131)
    out = of_experts(m, t, route(e, t, f), f)
    if e["shared"]:
        shared = mlp(m, {kind - 23: t[kind] for kind in (27, 28, 29) if kind in t}, f)
        out = out + (sigmoid(f @ t[37].T) * shared if e["shared"]["gated"] else shared)
    return out


def of_experts(m, t, p, f):
    """What experts of the weights `p` give together."""
    e, parts = m["experts"], {24: 4, 25: 5, 26: 6, 34: 20, 35: 21, 36: 22}
    out = 0
    for i in range(e["count"]):
        cut = lambda a: a.reshape(e["count"], -1, a.shape[1])[i] if len(a) > 1 else a.reshape(e["count"], -1)[[i]]
        of_expert, weight = {parts[kind]: cut(a) for kind, a in t.items() if kind in parts}, p[:, [i]]
        out = out + (np.where(weight == 0, 0, mlp(m, of_expert, weight * f)) if e["weigh_inputs"] else weight * mlp(m, of_expert, f))
    return out


# ---------------------------------------------------------------- Streams

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
