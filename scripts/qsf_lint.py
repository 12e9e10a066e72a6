"""What format-spec/SPEC.md asks of writers and readers need not check, and which tensors a model must have."""
import numpy as np
import qsf_tensors
from qsf_file import KINDS
from qsf_parts import part_of
from qsf_values import LEARNED, learned_pieces, pieces

def lint_learned(t, name):
    for scales, blocks in learned_pieces(t.type, t.data, t.rows, t.cols, t.layout):
        if not np.isfinite(scales).all():
            yield f"{name}: row scale is not finite"
        if t.type < 21 and ((blocks[..., 0].view(np.int8) >> 1) == -64).any():
            yield f"{name}: block scale -64"


def lint_tensor(r, t):
    name = r.name(t)
    if t.kind not in KINDS:
        yield f"{name}: not a kind of this version"
    if t.kind == 13:
        yield f"{name}: writers write kinds 21 and 22"
    if t.own_type == 255 or t.flags:
        yield f"{name}: type is not explicit, or flags are not 0"
    if t.type in (6, 7, 8):
        return
    if t.type in LEARNED:
        yield from lint_learned(t, name)
        return
    for f16s, codes in pieces(t.type, t.data, t.rows, t.cols, r.n, t.layout):
        planes = len(codes) == 2
        padding = 2 if t.type == 4 and not planes else 0  # section 6.1: what zero bits become
        if not all(np.isfinite(f).all() for f in f16s):
            yield f"{name}: scale or min is not finite"
        if t.type in (1, 2, 3) and (f16s[0] < 0).any():
            yield f"{name}: negative scale"
        if t.cols % r.n and any((c[:, -1, t.cols % r.n:] != padding).any() for c in codes):
            yield f"{name}: padding codes are not {padding}"
        if planes and (codes[0] & codes[1]).any():
            yield f"{name}: sign bit where the zero bit is set"
        if t.type == 4 and not planes and (codes[0] == 3).any():
            yield f"{name}: code 3"
        if t.type == 9 and (codes[0] == -128).any():
            yield f"{name}: code -128"


def lint_file(r, listing):
    if not r.extended:
        return ["plain file"]
    out, order = [], ["header", "LIDX", "EMBD"] + [f"layer {i}" for i in range(len(r.layers))]
    order += [t for t in ("FINL", "POSE", "META", "TOKN", "CTPL", "GRID", "OUTL", "PART", "ECHK", "TCRC", "CLUS", "EXIT", "LORA", "EVAL") if t in r.sections] + ["directory"]
    if [x[2] for x in r.regions] != order:
        out.append(f"parts are not in order: {[x[2] for x in r.regions]}")
    out += [f"{tag} without records" for tag in ("OUTL", "PART") if tag in r.sections and not r.sections[tag].stored]
    if "TCRC" not in r.sections:
        out.append("no TCRC")
    if r.header["index_offset"] != 128 or r.directory_offset % 64:
        out.append("layer index is not at 128, or directory is not aligned")
    if [s.offset for s in r.sections.values()] != sorted(s.offset for s in r.sections.values()):
        out.append("directory is not sorted by offset")
    for tag, s in r.sections.items():
        if (s.offset + 16 * (tag == "EMBD")) % 64:
            out.append(f"{tag} is not aligned")
        if s.compression and tag not in ("META", "TOKN", "CTPL", "EVAL"):
            out.append(f"{tag} is compressed")
        elif s.compression and len(r.section(tag)) <= s.stored:
            out.append(f"{tag} is compressed, but not smaller")
    if r.model["position"]["kind"] != "rope" and r.theta_bits != bytes(4):
        out.append("rope theta without rotation")
    if "POSE" in r.sections and r.model["position"]["kind"] != "learned":
        out.append("POSE, but positions are not learned")
    for i, e in enumerate(r.layers):
        chunks = r.layer_chunks(i)
        raw = all(c.compression == 0 for c in chunks)
        if raw != (e["compression"] == 0) or not raw and 100 * sum(c.stored for c in chunks) > 98 * e["raw"]:
            out.append(f"layer {i}: compression id, or compression that does not save 2 %")
    if len(r.records) != len(listing):
        return out + [f"META has {len(r.records)} records for {len(listing)} tensors"]
    for t, rec in zip(listing, r.records):
        if any(rec.get(k) != t[k] for k in ("layer", "kind", "rows", "cols", "type")):
            out.append(f"META's record of layer {t['layer']} {t['kind']} disagrees with the file")
    return out


def kind_faults(r, listing):
    """Tensors that the model needs and the file has not, or that it does not use, or of another shape; experts that end inside a panel,
    or are in two parts. Unknown kinds that are not optional: section 5.1. listing: (tensor, its name)."""
    m, parts = r.model, {}
    for t, name in listing:
        layer, kind, rows, cols, layout = t.layer, part_of(t.kind)[0], t.rows, t.cols, t.layout
        if kind not in KINDS and not t.flags:
            yield f"{name}: an unknown kind, which needs a newer program"
        whole = len(r.parts.get((layer, kind), range(rows)))
        parts.setdefault(layer, {})[kind] = whole, cols
        if layout == 3 and kind in (24, 25, 26) and m["experts"] and whole % (16 * m["experts"]["count"]):
            yield f"{name}: experts that are not whole panels"
    for (layer, kind), codes in r.parts.items():
        each = max(1, len(codes) // m["experts"]["count"]) if layer is not None and m["experts"] else 1
        if (codes != codes[np.arange(len(codes)) // each * each]).any():
            yield f"layer {layer} {KINDS[kind]}: an expert in two parts"
    for layer in [None, *range(m["layers"])]:
        must, may = qsf_tensors.tensor_kinds(m, layer)
        have = {k: v for k, v in parts.get(layer, {}).items() if k in KINDS}  # unknown ones are optional
        where = "" if layer is None else f"layer {layer} "
        for k in must.keys() - have.keys():
            yield f"{where}{KINDS[k]}: missing"
        for k, shape in have.items():
            want = must.get(k) or may.get(k)
            if want is None:
                if k != 68:  # section 7.5: not used, but allowed
                    yield f"{where}{KINDS[k]}: the model does not use it"
            elif want != shape:
                yield f"{where}{KINDS[k]}: shape {shape[0]} x {shape[1]} instead of {want[0]} x {want[1]}"
