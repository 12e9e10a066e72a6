#!/usr/bin/env python3
"""Writes the fixtures of tests/fixtures/parquet: one table by three writers, and small tasks beside their JSONL.

    scripts/make_parquet.py OUT_DIR

Needs pyarrow, polars and duckdb. The writers stamp their versions into files, so other versions give other bytes.
"""

import json
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 60
WORDS = ["night", "stormy", "Ärger", "über", "", "夜", "a\nb", "x" * 300]


def row(i):
    """A row with every kind of value, and of every kind some that are missing."""
    words = [WORDS[(i + k) % len(WORDS)] for k in range(i % 5)]
    return {
        "text": None if i % 7 == 3 else f"{WORDS[i % len(WORDS)]} {i}",
        "kind": "one" if i < 40 else "two",
        "label": i - 3,
        "small": None if i % 4 == 1 else -i,
        "unsigned": 4294967295 - i,
        "flag": None if i % 5 == 4 else i % 3 == 0,
        "score": i / 8,
        "half": i / 4,
        "words": None if i % 6 == 5 else [None if k == 2 else word for k, word in enumerate(words)],
        "choices": {"text": words, "label": list(range(len(words)))},
        "pairs": [{"word": word, "at": k if k % 2 else None} for k, word in enumerate(words)],
        "maybe": None if i % 3 == 2 else {"name": f"n{i}", "count": None if i % 2 else i},
        "price": Decimal(i) / 4,
        "nested": [[i], [i, i]],
    }


SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "kind": pa.string(),
        "label": pa.int64(),
        "small": pa.int32(),
        "unsigned": pa.uint32(),
        "flag": pa.bool_(),
        "score": pa.float64(),
        "half": pa.float32(),
        "words": pa.list_(pa.string()),
        "choices": pa.struct({"text": pa.list_(pa.string()), "label": pa.list_(pa.int32())}),
        "pairs": pa.list_(pa.struct({"word": pa.string(), "at": pa.int64()})),
        "maybe": pa.struct({"name": pa.string(), "count": pa.int64()}),
        # What is not read, and must not be in the way.
        "price": pa.decimal128(20, 2),
        "nested": pa.list_(pa.list_(pa.int64())),
    }
)

TASKS = {
    "hellaswag": [
        {
            "activity_label": "Reading",
            "ctx_a": f"It was a {word}",
            "ctx_b": "and",
            "endings": ["stormy night.", "qq zz q.", "xx", "zq"],
            "label": label,
        }
        for word, label in (("dark", "0"), ("cold", "1"), ("long", "0"))
    ],
    "winogrande": [
        {"sentence": "It was a _, and he went home.", "option1": "night", "option2": "qq", "answer": answer}
        for answer in ("1", "2")
    ],
    "arc": [
        {
            "question": "What comes after the day?",
            "choices": {"text": ["a night", "qq", "a zz"], "label": ["A", "B", "C"]},
            "answerKey": key,
        }
        for key in ("A", "C")
    ],
    "piqa": [{"goal": "To read", "sol1": "open a book", "sol2": "qq a zz", "label": label} for label in (0, 1)],
    "mmlu": [
        {"question": "What is read?", "choices": ["a book", "qq", "zz", "x"], "answer": answer, "subject": subject}
        for answer, subject in ((0, "old_books"), (3, "letters"))
    ],
    "truthfulqa_mc": [
        {
            "question": "What is read?",
            "mc1_targets": {"choices": ["A book.", "A qq."], "labels": [1, 0]},
            "mc2_targets": {"choices": ["A book.", "A letter.", "A qq."], "labels": [1, 1, 0]},
        }
    ],
    "lambada": [{"text": "It was a dark and stormy night"}, {"text": "He went home to his wife"}],
}


def main():
    """Writes all files."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rows = [row(i) for i in range(ROWS)]
    read = [{name: value for name, value in row.items() if name not in ("price", "nested")} for row in rows]
    (out / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in read))
    table = pa.Table.from_pylist(rows, SCHEMA)
    # Pages of a few rows.
    few = {"data_page_size": 64, "write_batch_size": 8}
    pq.write_table(table, out / "snappy_v1.parquet", row_group_size=25, write_page_checksum=True, **few)
    pq.write_table(table, out / "plain_v1.parquet", compression="none", use_dictionary=False)
    pq.write_table(table, out / "zstd_v2.parquet", compression="zstd", data_page_version="2.0", **few)
    pq.write_table(
        table, out / "lz4_v2.parquet", compression="lz4", data_page_version="2.0", use_dictionary=False
    )
    polars.from_arrow(table).write_parquet(out / "polars.parquet")
    connection = duckdb.connect()
    connection.execute(f"COPY (SELECT * FROM 'plain_v1.parquet') TO '{out / 'duckdb.parquet'}'".replace(
        "'plain_v1.parquet'", f"'{out / 'plain_v1.parquet'}'"
    ))
    delta = table.select(["text"])
    pq.write_table(delta, out / "delta.parquet", use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    pq.write_table(table.select(["text"]), out / "gzip.parquet", compression="gzip")
    # One row of a thousand references to one long text.
    long = pa.table({"words": pa.array([["x" * 100_000] * 1000])})
    pq.write_table(long, out / "long_row.parquet", dictionary_pagesize_limit=1 << 20)
    for task, records in TASKS.items():
        (out / f"{task}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        pq.write_table(pa.Table.from_pylist(records), out / f"{task}.parquet")
    for path in sorted(out.glob("*.parquet")):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
