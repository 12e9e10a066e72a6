"""META of QSF files, written from format-spec/SPEC.md, section 8, and MODEL.md alone: parsed and checked for qsf_file.py."""
import json
import numpy as np

TYPES = {0: "2bit-sym", 1: "2bit", 2: "3bit", 3: "4bit", 4: "ternary", 6: "f16", 7: "f32", 8: "bf16", 9: "8bit",
         16: "n2", 17: "n3", 18: "n4", 19: "n5", 20: "6bit", 21: "t2", 22: "t3", 23: "x2", 24: "x3", 25: "x4"}
NONE = 0xFFFFFFFF
RECORD_NULLABLE = "layer", "promoted_from", "cosine", "relative_error", "max_abs_error"


class Damage(Exception):
    """The file breaks a rule that a reader has to check."""


def need(condition, place, what):
    if not condition:
        raise Damage(f"{place}: {what}")


class Pairs(list):
    """A JSON object as (name, value) pairs, so that fields which come twice are seen."""


class Number(float):
    """A JSON number that is not one of the integers of section 8: with fraction or exponent, -0, or outside of all ranges."""
    def __new__(cls, text):
        self = super().__new__(cls, text)
        need(abs(self) != float("inf"), "META", f"number {text} is not finite")
        return self


def parse_int(text):
    return int(text) if text != "-0" and len(text) <= 20 else Number(text)


def f32(x, place, low=None):
    """The number, read as f64, rounded to f32, as a Python float. Without `low` it must be > 0, else >= low."""
    need(type(x) in (int, Number), place, "not a number")
    with np.errstate(over="ignore"):
        r = float(np.float32(float(x)))
    need(abs(r) != float("inf"), place, "not finite in f32")
    need(r > 0 if low is None else r >= low, place, f"{r} is not {'> 0' if low is None else f'>= {low}'}")
    return r


def integer(x, place, low=0, high=NONE):
    need(type(x) is int, place, "not an integer without fraction or exponent")
    need(low <= x <= high, place, f"{x} is not in {low} to {high}")
    return x


def fields(x, place, must, may=(), strict=False):
    """A JSON object as dict of its known fields."""
    need(isinstance(x, Pairs), place, "not an object")
    out = {}
    for k, v in x:
        if k in must or k in may:
            need(k not in out, place, f"field {k} comes twice")
            out[k] = v
        else:
            need(not strict, place, f"unknown field {k}")
    for k in must:
        need(k in out, place, f"field {k} is missing")
    return out


def plain_json(x):
    """Pairs -> dict, for printing."""
    if isinstance(x, Pairs):
        return {k: plain_json(v) for k, v in x}
    return [plain_json(v) for v in x] if isinstance(x, list) else x


def choice(x, place, names):
    need(isinstance(x, str) and x in names, place, f"not one of {', '.join(names)}")


def layer_list(x, place, layers):
    need(isinstance(x, list), place, "not an array")
    for i, v in enumerate(x):
        integer(v, f"{place}[{i}]", 0, layers - 1)
        need(i == 0 or x[i - 1] < v, place, "not ascending")


def numbers(x, place, count):
    need(isinstance(x, list), place, "not an array")
    need(len(x) == count, place, f"{len(x)} numbers instead of {count}")
    return [f32(v, f"{place}[{i}]") for i, v in enumerate(x)]


# MODEL.md, section 1: fields with a default may be absent but not null, optional ones may be both.
MODEL_FIELDS = """architecture layers hidden heads kv_heads head_dim ffn vocab max_positions norm activation gated_ffn position
    tied_head""".split()
MODEL_DEFAULTS = dict(residual="sequential", embedding_norm=False, attention_sinks=False, attention_gate=False, value_norm=False,
                      layer_scale=False, sub_norms=False, window_chunks=False, window_sinks=False, gate_sparsity=[], stop_tokens=[])
MODEL_FACTORS = "attention_scale attention_softcap logit_softcap embedding_scale residual_scale logit_scale qkv_clip".split()
MODEL_OPTIONAL = ["qk_norm", *MODEL_FACTORS, *"""latent full_attention shared_kv per_layer_embedding query_growth gate_clip
    sliding_window recurrent multipliers half_layers experts streams laurel value_heads bos pad""".split()]
EXPERTS_DEFAULTS = dict(dense_layers=[], score="softmax", choice_bias=False, weigh_inputs=False, beside_ffn=False)
EXPERTS_OPTIONAL = ["groups", "weight_scale", "margin", "shared"]
NORM_DEFAULTS = dict(gain_plus_one=False, placement="pre", without_gain=False)
ROPE_DEFAULTS, ROPE_OPTIONAL = dict(unrotated_layers=[]), ["scaling", "dims", "sliding_theta"]
SCALINGS = dict(linear=["factor"], llama3=["factor", "low_freq_factor", "high_freq_factor", "original_positions"],
                dynamic=["factor", "original_positions"], long_rope=["original_positions", "short_factors", "long_factors", "attention_factor"],
                yarn=["factor", "original_positions", "beta_fast", "beta_slow", "attention_factor", "truncate"], factors=["factors"])


MIXERS = dict(short_conv=[], gated_delta=["key_heads", "key_dim", "value_heads", "value_dim"],
              mamba1=["width", "state", "rank"], mamba2=["heads", "head_dim", "groups", "state"])


def with_defaults(m, defaults, optional):
    m.update({k: v for k, v in defaults.items() if k not in m})
    m.update({k: None for k in optional if k not in m})
    return m


def check_dimensions(m):
    """The limits of MODEL.md on the numbers that a plain file's header has too."""
    lim = dict(layers=16, hidden=20, heads=16, kv_heads=16, head_dim=16, ffn=24, vocab=26, max_positions=30)
    for k, bits in lim.items():
        integer(m[k], f"model.{k}", 1, 1 << bits)
    need(m["heads"] % m["kv_heads"] == 0, "model.kv_heads", "does not divide heads")
    need(m["heads"] * m["head_dim"] <= 1 << 24, "model.head_dim", "heads * head_dim exceeds 2^24")
    for k in ("bos", "pad"):
        if m[k] is not None:
            integer(m[k], f"model.{k}", 0, m["vocab"] - 1)
    need(isinstance(m["stop_tokens"], list), "model.stop_tokens", "not an array")
    for i, s in enumerate(m["stop_tokens"]):
        integer(s, f"model.stop_tokens[{i}]", 0, m["vocab"] - 1)


def parse_scaling(x, dims):
    place = "model.position.scaling"
    kind = dict(x).get("kind") if isinstance(x, Pairs) else None
    choice(kind, f"{place}.kind", SCALINGS)
    s = fields(x, place, ["kind"] + SCALINGS[kind], strict=True)
    for k in SCALINGS[kind]:
        where = f"{place}.{k}"
        if k == "original_positions":
            integer(s[k], where, 1, NONE if kind == "llama3" else 1 << 30)
        elif k == "truncate":
            need(type(s[k]) is bool, where, "not a bool")
        elif k.endswith("factors"):
            s[k] = numbers(s[k], where, dims // 2)
        else:
            s[k] = f32(s[k], where, 1 if k == "factor" and kind in ("dynamic", "yarn") else None)
    need(kind != "llama3" or s["low_freq_factor"] < s["high_freq_factor"], place, "low_freq_factor >= high_freq_factor")
    return s


def parse_position(x, layers, head_dim):
    place = "model.position"
    kind = dict(x).get("kind") if isinstance(x, Pairs) else None
    choice(kind, f"{place}.kind", ("learned", "rope", "alibi"))
    if kind == "alibi":
        p = fields(x, place, ["kind"], ["slope_scale"], strict=True)
        p["slope_scale"] = 1.0 if p.get("slope_scale") is None else f32(p["slope_scale"], f"{place}.slope_scale")
        return p
    if kind != "rope":
        return fields(x, place, ["kind"], strict=True)
    p = fields(x, place, ["kind", "theta"], [*ROPE_DEFAULTS, *ROPE_OPTIONAL], strict=True)
    with_defaults(p, ROPE_DEFAULTS, ROPE_OPTIONAL)
    for k in ("theta", "sliding_theta"):
        if k == "theta" or p[k] is not None:
            p[k] = f32(p[k], f"{place}.{k}")
    if p["dims"] is not None:
        integer(p["dims"], f"{place}.dims", 2, head_dim)
        need(p["dims"] % 2 == 0, f"{place}.dims", "odd")
    else:
        need(head_dim % 2 == 0, "model.head_dim", "odd, but all of a head is rotated")
    layer_list(p["unrotated_layers"], f"{place}.unrotated_layers", layers)
    if p["scaling"] is not None:
        p["scaling"] = parse_scaling(p["scaling"], head_dim if p["dims"] is None else p["dims"])
    return p


def parse_recurrent(x, layers):
    place = "model.recurrent"
    r = fields(x, place, ("mixer", "taps", "layers"), ("beside_attention", "without_norm", "beta_scale", "channel_rank", "norm_epsilon"), strict=True)
    with_defaults(r, dict(beside_attention=False, without_norm=False), ("beta_scale", "channel_rank", "norm_epsilon"))
    if r["channel_rank"] is not None:
        integer(r["channel_rank"], f"{place}.channel_rank", 1, 1 << 16)
    for k in ("beta_scale", "norm_epsilon"):
        if r[k] is not None:
            r[k] = f32(r[k], f"{place}.{k}")
    for k in ("beside_attention", "without_norm"):
        need(type(r[k]) is bool, f"{place}.{k}", "not a bool")
    integer(r["taps"], f"{place}.taps", 1, 64)
    layer_list(r["layers"], f"{place}.layers", layers)
    need(r["layers"], f"{place}.layers", "empty")
    kind = dict(r["mixer"]).get("kind") if isinstance(r["mixer"], Pairs) else None
    choice(kind, f"{place}.mixer.kind", MIXERS)
    more = ("norm_epsilon", "norm_gains") if kind == "mamba1" else ()
    m = r["mixer"] = fields(r["mixer"], f"{place}.mixer", ["kind", *MIXERS[kind]], more, strict=True)
    for k in MIXERS[kind]:
        integer(m[k], f"{place}.mixer.{k}", 1, 1 << 16)
    if kind == "mamba1":
        with_defaults(m, dict(norm_gains=False), ("norm_epsilon",))
        if m["norm_epsilon"] is not None:
            m["norm_epsilon"] = f32(m["norm_epsilon"], f"{place}.mixer.norm_epsilon", 0)
        need(type(m["norm_gains"]) is bool and (m["norm_epsilon"] is not None or not m["norm_gains"]), f"{place}.mixer.norm_gains", "not a bool, or without norm_epsilon")
        need(m["rank"] <= m["width"], f"{place}.mixer.rank", "above width")
        need(m["width"] * m["state"] <= 1 << 28, f"{place}.mixer", "too large a state")
    if kind == "gated_delta":
        keys, key_dim, values, value_dim = (m[k] for k in MIXERS[kind])
        need(values % keys == 0, f"{place}.mixer.value_heads", "not a multiple of key_heads")
        need(values * value_dim * key_dim <= 1 << 28 and values * max(value_dim, key_dim) <= 1 << 24, f"{place}.mixer", "too large a state")
    if kind == "mamba2":
        heads, head_dim, groups, state = (m[k] for k in MIXERS[kind])
        need(heads % groups == 0, f"{place}.mixer.heads", "not a multiple of groups")
        need(heads * head_dim * state <= 1 << 28 and heads * max(head_dim, state) <= 1 << 24, f"{place}.mixer", "too large a state")
    need(kind == "mamba2" or not r["without_norm"], f"{place}.without_norm", "not with this mixer")
    need(kind == "gated_delta" or r["beta_scale"] is None and r["norm_epsilon"] is None and r["channel_rank"] is None, place,
         "beta_scale, norm_epsilon or channel_rank with this mixer")
    need(r["channel_rank"] is None or m["key_heads"] == m["value_heads"], place, "channel_rank with shared keys")
    return r


def parse_multipliers(m):
    place, names = "model.multipliers", ("attention", "mixer", "mixer_gate", "mixer_step", "ffn_gate", "ffn")
    x = fields(m["multipliers"], place, (*names, "mixer_inputs"), strict=True)
    x.update({k: f32(x[k], f"{place}.{k}") for k in names})
    x["mixer_inputs"] = numbers(x["mixer_inputs"], f"{place}.mixer_inputs", 3)
    need(m["recurrent"] is not None and m["recurrent"]["mixer"]["kind"] == "mamba2" and m["gated_ffn"], place, "without mamba2 or gated_ffn")
    need(m["gate_clip"] is None and m["experts"] is None and m["latent"] is None, place, "not with these fields")
    return x


def parse_model(x):
    """MODEL.md: `model` as a dict, checked, with all defaults; optional fields that are absent are None."""
    m = fields(x, "model", MODEL_FIELDS, [*MODEL_DEFAULTS, *MODEL_OPTIONAL], strict=True)
    with_defaults(m, MODEL_DEFAULTS, MODEL_OPTIONAL)
    need(isinstance(m["architecture"], str), "model.architecture", "not a string")
    check_dimensions(m)
    norm = m["norm"] = fields(m["norm"], "model.norm", ("kind", "epsilon"), NORM_DEFAULTS, strict=True)
    with_defaults(norm, NORM_DEFAULTS, ())
    choice(norm["kind"], "model.norm.kind", ("layer_norm", "rms_norm"))
    choice(norm["placement"], "model.norm.placement", ("pre", "post", "pre_and_post", "by_mixer"))
    norm["epsilon"] = f32(norm["epsilon"], "model.norm.epsilon", 0)
    choice(m["activation"], "model.activation", ("gelu_erf", "gelu_tanh", "silu", "relu", "relu2", "xielu"))
    choice(m["residual"], "model.residual", ("sequential", "parallel", "parallel_one_norm"))
    need(m["residual"] == "sequential" or norm["placement"] == "pre", "model.residual", "parallel, but placement is not pre")
    if m["qk_norm"] is not None:
        choice(m["qk_norm"], "model.qk_norm", ("head", "projection", "rotated_head", "rotated_head_plain", "heads_apart"))
    for k, v in (("gated_ffn", m["gated_ffn"]), ("tied_head", m["tied_head"]), ("embedding_norm", m["embedding_norm"]), ("norm.gain_plus_one", norm["gain_plus_one"]),
                 ("norm.without_gain", norm["without_gain"]), ("attention_sinks", m["attention_sinks"]), ("sub_norms", m["sub_norms"]), ("window_chunks", m["window_chunks"]), ("window_sinks", m["window_sinks"]), ("attention_gate", m["attention_gate"])):
        need(type(v) is bool, f"model.{k}", "not a bool")
    for k in MODEL_FACTORS:
        if m[k] is not None:
            m[k] = f32(m[k], f"model.{k}")
    if m["query_growth"] is not None:
        g = m["query_growth"] = fields(m["query_growth"], "model.query_growth", ("factor", "original_positions"), ("from_one", "unrotated_only"), strict=True)
        with_defaults(g, dict(from_one=False, unrotated_only=False), ())
        need(type(g["from_one"]) is bool and type(g["unrotated_only"]) is bool, "model.query_growth", "not bools")
        g["factor"] = f32(g["factor"], "model.query_growth.factor")
        integer(g["original_positions"], "model.query_growth.original_positions", 1, 1 << 30)
    if m["gate_clip"] is not None:
        c = m["gate_clip"] = fields(m["gate_clip"], "model.gate_clip", ("alpha", "limit"), strict=True)
        c.update({k: f32(v, f"model.gate_clip.{k}") for k, v in c.items()})
        need(m["gated_ffn"] and m["activation"] == "silu", "model.gate_clip", "without gated_ffn and silu")
    if m["activation"] == "xielu":
        need(not m["gated_ffn"] and m["experts"] is None, "model.activation", "xielu with a gate or experts")
    full = dict(m["full_attention"]).get("head_dim") if isinstance(m["full_attention"], Pairs) else None
    m["position"] = parse_position(m["position"], m["layers"], full if type(full) is int else m["head_dim"])
    if full is not None and m["position"]["kind"] == "rope":
        dims = m["position"]["dims"]
        need(m["head_dim"] % 2 == 0 if dims is None else dims <= m["head_dim"], "model.head_dim", "odd, or less than the rotated dims")
    if m["sliding_window"] is not None:
        w = m["sliding_window"] = fields(m["sliding_window"], "model.sliding_window", ("size", "layers"), strict=True)
        integer(w["size"], "model.sliding_window.size", 1, 1 << 30)
        layer_list(w["layers"], "model.sliding_window.layers", m["layers"])
    for k in ("value_norm", "layer_scale"):
        need(type(m[k]) is bool, f"model.{k}", "not a bool")
    if m["full_attention"] is not None:
        place = "model.full_attention"
        x = m["full_attention"] = fields(m["full_attention"], place, ("kv_heads", "head_dim"), ("keys_are_values",), strict=True)
        with_defaults(x, dict(keys_are_values=False), ())
        for k in ("kv_heads", "head_dim"):
            integer(x[k], f"{place}.{k}", 1, 1 << 16)
        need(type(x["keys_are_values"]) is bool, f"{place}.keys_are_values", "not a bool")
        need(m["heads"] % x["kv_heads"] == 0 and m["heads"] * x["head_dim"] <= 1 << 24, place, "heads that do not fit")
        need(m["attention_scale"] is not None and m["latent"] is None and not m["attention_gate"] and m["qk_norm"] in (None, "head", "rotated_head", "rotated_head_plain"), place, "not with these fields")
    if m["shared_kv"] is not None:
        place = "model.shared_kv"
        x = m["shared_kv"] = fields(m["shared_kv"], place, ("layers",), ("ffn",), strict=True)
        with_defaults(x, {}, ("ffn",))
        integer(x["layers"], f"{place}.layers", 1, m["layers"] - 1)
        if x["ffn"] is not None:
            integer(x["ffn"], f"{place}.ffn", 1, 1 << 24)
        need(m["latent"] is None and m["recurrent"] is None and not m["attention_gate"], place, "not with latent, recurrent or gates")
        windows = m["sliding_window"]["layers"] if m["sliding_window"] else []
        own = {i in windows for i in range(m["layers"] - x["layers"])}
        need(own >= {i in windows for i in range(m["layers"])}, place, "a layer without a source")
    if m["per_layer_embedding"] is not None:
        place = "model.per_layer_embedding"
        x = m["per_layer_embedding"] = fields(m["per_layer_embedding"], place, ("width", "vocab"), strict=True)
        integer(x["width"], f"{place}.width", 1, 1 << 16)
        integer(x["vocab"], f"{place}.vocab", 1, 1 << 26)
        need(m["layers"] * x["width"] <= 1 << 24, place, "too wide for so many layers")
    if m["latent"] is not None:
        place = "model.latent"
        x = m["latent"] = fields(m["latent"], place, ("kv_rank", "shared_dim", "value_dim", "norm_epsilon"), ("q_rank",), strict=True)
        with_defaults(x, {}, ("q_rank",))
        for k, most in (("kv_rank", 1 << 16), ("shared_dim", m["head_dim"] - 1), ("value_dim", 1 << 16)):
            integer(x[k], f"{place}.{k}", 1, most)
        if x["q_rank"] is not None:
            integer(x["q_rank"], f"{place}.q_rank", 1, 1 << 20)
        x["norm_epsilon"] = f32(x["norm_epsilon"], f"{place}.norm_epsilon", 0)
        need(m["kv_heads"] == m["heads"] and m["qk_norm"] is None and m["sliding_window"] is None, place, "not with these heads, norms or windows")
        need(m["qkv_clip"] is None and not m["attention_sinks"] and not m["attention_gate"], place, "not with limits, sinks or gates")
        p = m["position"]
        need(p["kind"] == "rope" and p["dims"] == x["shared_dim"] and p["sliding_theta"] is None, place, "other rotated dims than shared_dim")
        need(m["heads"] * max(x["kv_rank"] + x["shared_dim"], x["value_dim"]) <= 1 << 24, place, "heads too wide")
    if m["recurrent"] is not None:
        r = m["recurrent"] = parse_recurrent(m["recurrent"], m["layers"])
        need(not r["beside_attention"] or (m["latent"] is None and m["residual"] == "sequential" and not m["sub_norms"]),
             "model.recurrent.beside_attention", "not with these fields")
    need(norm["placement"] != "by_mixer" or m["recurrent"] is not None, "model.norm.placement", "by_mixer without recurrent")
    if m["multipliers"] is not None:
        m["multipliers"] = parse_multipliers(m)
    if m["half_layers"] is not None:
        place = "model.half_layers"
        x = m["half_layers"] = fields(m["half_layers"], place, ("mixer", "feed_forward"), strict=True)
        for k in ("mixer", "feed_forward"):
            layer_list(x[k], f"{place}.{k}", m["layers"])
        alone = set(x["feed_forward"])
        need(x["mixer"] or alone, place, "empty")
        need(not alone & set(x["mixer"]), place, "a layer in both lists")
        need(m["recurrent"] is None or not alone & set(m["recurrent"]["layers"]), place, "a recurrent layer without a mixer")
        need(m["residual"] == "sequential" and norm["placement"] == "pre", place, "not with this residual or placement")
        need(m["shared_kv"] is None and m["per_layer_embedding"] is None and not m["layer_scale"], place, "not with these fields")
    need(not m["window_sinks"] or m["attention_sinks"] and m["sliding_window"] is not None, "model.window_sinks", "without sinks or windows")
    if m["value_heads"] is not None:
        place = "model.value_heads"
        x = m["value_heads"] = fields(m["value_heads"], place, ("dim",), ("scale",), strict=True)
        with_defaults(x, {}, ("scale",))
        integer(x["dim"], f"{place}.dim", 1, 1 << 16)
        if x["scale"] is not None:
            x["scale"] = f32(x["scale"], f"{place}.scale")
        need(m["heads"] * x["dim"] <= 1 << 24, place, "heads too wide")
        need(m["latent"] is None and not m["attention_gate"] and not m["value_norm"]
             and not (m["full_attention"] and m["full_attention"]["keys_are_values"]), place, "not with these fields")
    if m["streams"] is not None:
        integer(m["streams"], "model.streams", 2, 64)
        need(m["streams"] * m["hidden"] <= 1 << 24, "model.streams", "too many for so wide a stream")
        need(m["per_layer_embedding"] is not None and m["residual"] == "sequential" and norm["kind"] == "rms_norm" and m["half_layers"] is None
             and not m["layer_scale"], "model.streams", "not with these fields")
    if m["laurel"] is not None:
        integer(m["laurel"], "model.laurel", 1, 1 << 16)
        need(m["residual"] == "sequential" and m["half_layers"] is None, "model.laurel", "not with these fields")
    need(isinstance(m["gate_sparsity"], list), "model.gate_sparsity", "not an array")
    if m["gate_sparsity"]:
        place = "model.gate_sparsity"
        need(len(m["gate_sparsity"]) == m["layers"], place, "not a number for each layer")
        m["gate_sparsity"] = [f32(v, f"{place}[{i}]", 0) for i, v in enumerate(m["gate_sparsity"])]
        need(max(m["gate_sparsity"]) < 1, place, "not below 1")
        need(m["gated_ffn"] and m["experts"] is None and m["multipliers"] is None and m["gate_clip"] is None, place, "not with these fields")
    need(not m["window_chunks"] or m["sliding_window"] is not None, "model.window_chunks", "without sliding_window")
    if m["sub_norms"]:
        need(m["experts"] is None and m["latent"] is None and m["recurrent"] is None, "model.sub_norms", "not with these fields")
    if m["experts"] is not None:
        place = "model.experts"
        e = m["experts"] = fields(m["experts"], place, ("count", "used", "ffn", "normalize_weights"), [*EXPERTS_DEFAULTS, *EXPERTS_OPTIONAL], strict=True)
        with_defaults(e, EXPERTS_DEFAULTS, EXPERTS_OPTIONAL)
        integer(e["count"], f"{place}.count", 1, 1 << 16)
        integer(e["used"], f"{place}.used", 1, e["count"])
        integer(e["ffn"], f"{place}.ffn", 1, 1 << 24)
        for k in ("normalize_weights", "choice_bias", "weigh_inputs", "beside_ffn"):
            need(type(e[k]) is bool, f"{place}.{k}", "not a bool")
        choice(e["score"], f"{place}.score", ("softmax", "sigmoid", "sparse_mixer"))
        if e["margin"] is not None:
            e["margin"] = f32(e["margin"], f"{place}.margin")
        mixer = e["score"] == "sparse_mixer"
        need(mixer == (e["margin"] is not None), f"{place}.margin", "goes with sparse_mixer, and the other way round")
        need(not mixer or e["groups"] is None and e["weight_scale"] is None and not e["choice_bias"] and not e["normalize_weights"],
             f"{place}.score", "sparse_mixer does not go with the other fields")
        if e["weight_scale"] is not None:
            e["weight_scale"] = f32(e["weight_scale"], f"{place}.weight_scale")
        if e["groups"] is not None:
            g = e["groups"] = fields(e["groups"], f"{place}.groups", ("count", "used", "best"), strict=True)
            integer(g["count"], f"{place}.groups.count", 1, e["count"])
            need(e["count"] % g["count"] == 0, f"{place}.groups.count", "does not divide the number of experts")
            integer(g["used"], f"{place}.groups.used", 1, g["count"])
            integer(g["best"], f"{place}.groups.best", 1, e["count"] // g["count"])
            need(e["used"] <= g["used"] * (e["count"] // g["count"]), f"{place}.groups.used", "too few experts in these groups")
        if e["shared"] is not None:
            s = e["shared"] = fields(e["shared"], f"{place}.shared", ("ffn",), ("gated",), strict=True)
            with_defaults(s, dict(gated=False), ())
            integer(s["ffn"], f"{place}.shared.ffn", 1, 1 << 24)
            need(type(s["gated"]) is bool, f"{place}.shared.gated", "not a bool")
        need(not e["beside_ffn"] or e["shared"] is None and m["norm"]["kind"] == "rms_norm" and m["norm"]["placement"] not in ("post", "by_mixer")
             and m["residual"] == "sequential", f"{place}.beside_ffn", "does not go with the other fields")
        layer_list(e["dense_layers"], f"{place}.dense_layers", m["layers"])
        need(e["count"] * e["ffn"] < 1 << 32 and e["count"] * m["hidden"] < 1 << 32, place, "count * ffn or count * hidden is not below 2^32")
    return m


def parse_meta(raw):
    """Section 8: returns (model, records, whole META as plain JSON)."""
    def constant(name):
        raise ValueError(f"{name} is no JSON")
    try:
        root = json.loads(bytes(raw).decode("utf-8"), object_pairs_hook=Pairs, parse_float=Number, parse_int=parse_int, parse_constant=constant)
    except (ValueError, RecursionError) as e:
        raise Damage(f"META: {e}") from None
    version = fields(root, "META", ("version",))["version"]  # before all other fields: another version may have others
    need(integer(version, "META.version") == 1, "META.version", "not 1")
    top = fields(root, "META", ("model", "provenance", "tensors"))
    m = parse_model(top["model"])
    prov = fields(top["provenance"], "provenance", ("tool", "sources", "options"), ("requantized_from",))
    need(isinstance(prov["tool"], str) and isinstance(prov["sources"], list) and isinstance(prov["options"], Pairs),
         "provenance", "a field has the wrong type")
    names = prov.get("requantized_from", [])
    need(isinstance(names, list) and all(isinstance(x, str) for x in names), "provenance.requantized_from", "not an array of strings")
    for s in prov["sources"]:
        s = fields(s, "provenance.sources", ("name", "bytes", "sha256"))
        integer(s["bytes"], "provenance.sources.bytes", 0, (1 << 64) - 1)
        need(isinstance(s["name"], str) and isinstance(s["sha256"], str), "provenance.sources", "a field has the wrong type")
    need(isinstance(top["tensors"], list), "META.tensors", "not an array")
    records = []
    for i, r in enumerate(top["tensors"]):
        place = f"META.tensors[{i}]"
        r = fields(r, place, ("kind", "rows", "cols", "type"), (*RECORD_NULLABLE, "outliers"))
        for k, v in r.items():
            if v is None and k in RECORD_NULLABLE:
                continue
            if k == "outliers":
                integer(v, place, 0, (1 << 64) - 1)
            elif k in ("layer", "rows", "cols"):
                integer(v, place)
            elif k in ("kind", "type", "promoted_from"):
                need(isinstance(v, str), place, f"{k} is not a string")
                need(k == "kind" or v in TYPES.values(), place, f"{k} {v!r} is unknown")
            else:
                need(type(v) in (int, Number), place, f"{k} is not a number")
        records.append(r)
    return m, records, plain_json(root)
