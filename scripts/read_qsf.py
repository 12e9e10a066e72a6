#!/usr/bin/env python3
"""Independent reader and checker of QSF files, written from format-spec/SPEC.md alone.

    read_qsf.py FILE                      check everything, decode everything, list all tensors
    read_qsf.py FILE --json               the same as one JSON object
    read_qsf.py FILE --lint               also check the rules for writers that readers need not check
    read_qsf.py FILE --compare MODEL_DIR  measure the conversion error again and compare it with META
    read_qsf.py FILE --logits 1,2,3       check everything, run the model (qsf_forward.py) and print the logits as JSON
    read_qsf.py FILE --expected FILE      run the model on recorded token ids and compare with recorded logits

Exit codes: 0 ok; 1 --compare, --lint or --expected found a disagreement; 2 usage, or a file or decompressor is missing; 3 damaged
or refused, with the place of the first damage. Needs Python >= 3.9 and numpy; `lz4` and `zstandard` (or the `zstd` tool) only for files
that use them. The file is read by qsf_file.py. Memory: about one layer or embedding, decoded.
"""
import argparse, json, struct, sys, zlib
import numpy as np
import qsf_forward
from qsf_chunks import Missing
from qsf_file import KINDS, Reader
from qsf_lint import kind_faults, lint_file, lint_tensor
from qsf_meta import TYPES, Damage, need
from qsf_parts import join, part_of, rows_in_matrix
from qsf_source import Safetensors, measure, original


def run(r, ids, context, last):
    """Logits of the last positions, after all checks."""
    faults = list(kind_faults(r, [(t, r.name(t)) for t in r.verify()]))
    need(r.runnable, "header", "architecture or position encoding of a plain file that cannot be run")
    need(not faults, "model", "; ".join(faults))
    need(r.extended or r.model["position"]["kind"] != "learned", "model", "a plain file has no place for learned positions")
    adapters = r.adapters()

    def floats(layer, tensors):
        values = join(r.parts, [t for t in tensors if t.kind in KINDS], lambda t: r.values(t).astype(np.float64))
        for _, kind, expert, up, down in (a for a in adapters if a[0] == layer):
            if kind == 66 and 66 not in values:  # The head of a model that has the embedding's matrix there.
                values[66] = values[69].copy()
            first = len(up) * (expert or 0)
            need(kind in values and first + len(up) <= len(values[kind]) and values[kind].shape[1] == down.shape[1], "LORA", f"no matrix of kind {kind} in layer {layer} fits")
            values[kind][first:first + len(up)] += up @ down
        return values

    rest = floats(None, [r.embedding(), *r.final(), *r.positions()])
    return qsf_forward.logits(r.model, ids, rest, (floats(i, r.layer(i)) for i in range(len(r.layers))), context, last)


def token_ids(text):
    """Numbers with commas between them, or @FILE: the same, or a JSON array, in a file."""
    if text.startswith("@"):
        with open(text[1:]) as f:
            text = f.read()
    return [int(x) for x in text.strip().strip("[]").replace(",", " ").split()]


def main_run(p, args):
    """--logits and --expected: one line of JSON, exit code 1 if the logits are not those expected."""
    try:
        want = nll = None
        if args.expected:
            f = Safetensors(args.expected)
            ids, want, nll = f.get("input_ids").astype(int).ravel().tolist(), f.get("logits_last8"), f.get("nll")
        else:
            ids = token_ids(args.logits)
    except (OSError, ValueError, KeyError, struct.error) as e:
        p.error(f"cannot read token ids: {e!r}")
    try:
        r = Reader(args.file)
        if not ids or min(ids) < 0 or max(ids) >= r.model["vocab"]:
            p.error("no token ids, or ids outside of the vocabulary")
        if args.context is not None and args.context < len(ids):
            p.error("context shorter than the sequence")
        if r.model["position"]["kind"] == "learned" and len(ids) > r.model["max_positions"]:
            p.error("more token ids than learned positions")  # the other kinds are defined beyond max_positions too
        out = run(r, ids, args.context, len(ids) if args.expected else min(args.last, len(ids)))
    except Damage as e:
        print(json.dumps(dict(file=args.file, damage=str(e))))
        return 3
    except (Missing, OSError) as e:
        p.error(str(e))
    if want is None:
        print(json.dumps(dict(file=args.file, ids=ids, context=args.context or len(ids), logits=out.tolist())))
        return 0
    top = out[:-1].max(axis=-1, keepdims=True)
    ours = (top + np.log(np.exp(out[:-1] - top).sum(axis=-1, keepdims=True)))[:, 0] - out[np.arange(len(ids) - 1), ids[1:]]
    deviation = max(float(np.abs(out[-len(want):] - want).max() / np.abs(want).max()), float(np.abs(ours - nll).max() / np.abs(nll).max()))
    print(json.dumps(dict(file=args.file, positions=len(ids), relative_deviation=deviation)))
    return int(not deviation <= args.tolerance)


# ---------------------------------------------------------------- Command line

def main():
    p = argparse.ArgumentParser(description="Independent reader and checker of QSF files")
    p.add_argument("file")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.add_argument("--lint", action="store_true", help="also check rules for writers; exit code 1 if one is broken")
    p.add_argument("--compare", metavar="MODEL_DIR", help="compare with the safetensors; exit code 1 if META is off by more than 1e-4")
    p.add_argument("--logits", metavar="IDS", help="check everything, run the model in float64 on these token ids (1,2,3 or @FILE) and print the logits as JSON")
    p.add_argument("--last", type=int, default=1, metavar="N", help="--logits: of the last N positions, default 1")
    p.add_argument("--context", type=int, metavar="L", help="length of the context, L of MODEL.md; default: number of ids")
    p.add_argument("--expected", metavar="FILE", help="run the model on `input_ids` of these safetensors; exit code 1 if logits or losses deviate from `logits_last8` or `nll`")
    p.add_argument("--tolerance", type=float, default=1e-5, metavar="X", help="--expected: largest deviation, relative to the largest value; default 1e-5")
    args = p.parse_args()
    if args.logits and args.expected or args.last < 1 or args.context is not None and args.context < 1:
        p.error("--logits or --expected; --last and --context are at least 1")
    if args.logits or args.expected:
        return main_run(p, args)
    try:
        source = Safetensors(args.compare) if args.compare else None
    except (OSError, ValueError, KeyError, struct.error) as e:
        p.error(f"cannot read the model in {args.compare}: {e!r}")
    listing, shapes, remarks = [], [], []
    try:
        r = Reader(args.file)
        for i, t in enumerate(r.verify()):
            row = dict(layer=t.layer, kind=r.kind_name(t), rows=t.rows, cols=t.cols, type=TYPES[t.type], layout=t.layout,
                       offset=t.offset, crc32=None if t.crc is None else f"{t.crc:08x}")
            shapes.append((t._replace(data=None), r.name(t)))
            if args.lint:
                remarks += lint_tensor(r, t)
            decoded = r.values(t)
            row.update(min=float(decoded.min()), max=float(decoded.max()), values_crc32=f"{zlib.crc32(np.ascontiguousarray(decoded)):08x}")
            if source:
                name, keys = f"layer {t.layer} {row['kind']}", ("cosine", "relative_error", "max_abs_error")
                try:
                    a, rows = original(source, t.layer, r.kind_name(t._replace(kind=part_of(t.kind)[0]))), rows_in_matrix(r.parts, t)
                    a = a if rows is None or len(a) != len(r.parts[t.layer, part_of(t.kind)[0]]) else a[rows]
                except (KeyError, StopIteration):
                    a = np.zeros((0, 0))
                if a.shape != decoded.shape:
                    remarks.append(f"{name}: no original of shape {t.rows} x {t.cols} found")
                else:
                    row.update(zip(keys, measure(a, decoded)))
                    rec = r.records[i] if i < len(r.records) else {}
                    row["meta"] = {k: rec.get(k) for k in keys}
                    for k in keys if r.extended else ():
                        if rec.get(k) is None and not np.isfinite(row[k]):
                            continue
                        if not (isinstance(rec.get(k), (int, float)) and abs(rec[k] - row[k]) <= 1e-4 * max(1, abs(row[k]))):
                            remarks.append(f"{name}: {k} is {row[k]:.7g}, META has {rec.get(k)}")
            listing.append(row)
        if args.lint:
            remarks += kind_faults(r, shapes)
        remarks += lint_file(r, listing) if args.lint or source else []
    except Damage as e:
        print(json.dumps(dict(file=args.file, damage=str(e))) if args.json else f"DAMAGED {args.file}: {e}")
        return 3
    except (Missing, OSError) as e:
        p.error(str(e))
    unvouched = [] if r.extended else ["layer index", "embedding", "final section"]
    parts = [dict(name=c, offset=a, size=b - a) for a, b, c in r.regions]
    if args.json:
        print(json.dumps(dict(file=args.file, size=r.size, extended=r.extended, block_size=r.n, model=r.model, parts=parts,
              provenance=r.meta and r.meta["provenance"], layers=r.layers, tensors=listing, not_vouched_for=unvouched, remarks=remarks)))
        return int(bool(remarks))
    print(f"{args.file}: {r.size} bytes, {'extended' if r.extended else 'plain'}, block size {r.n}\n{json.dumps(r.model)}")
    for x in parts:
        print(f"  {x['offset']:>12} {x['size']:>12}  {x['name']}")
    for t in listing:
        line = f"{'' if t['layer'] is None else t['layer']:>3} {t['kind']:<19} {t['rows']:>6} x {t['cols']:<6} {t['type']:<8} {t['layout']} {t['min']:>11.5g} {t['max']:>11.5g}"
        if "cosine" in t:
            line += f"  cosine {t['cosine']:.6f}  relative error {t['relative_error']:.6f}"
        print(line + f"  {t['values_crc32']}")
    print("\n".join(remarks + [f"Checked: every checksum and padding byte, {len(listing)} tensors decoded" if r.extended else
                               f"Checked; not vouched for (no checksum): {', '.join(unvouched)}"]))
    return int(bool(remarks))


if __name__ == "__main__":
    sys.exit(main())
