"""Which layers of a model are of what kind, and which tensors each has, by format-spec/MODEL.md. Names as in qsf_forward.py."""


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
