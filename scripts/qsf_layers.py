"""Attention, recurrent mixers and feed-forwards of format-spec/MODEL.md, literally and in float64. Names as in qsf_forward.py."""
import math
import statistics
import numpy as np

from qsf_maths import act, frequencies, linear, norm, rotate, sigmoid, slopes, softmax, xielu
from qsf_tensors import has_sinks, shape, source, windowed

# ---------------------------------------------------------------- Attention

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


# ---------------------------------------------------------------- Recurrent mixers

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


# ---------------------------------------------------------------- Feed-forwards

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
