#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of many jobs to Parquet, and three questions about them. Needs the package duckdb.

usage: fleet.py [--analyze PROGRAM] --out DIRECTORY JOB...
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

TABLES = ("operations", "ranks", "findings")
QUESTIONS = {
    "nodes that others wait for": """
        SELECT node, count(DISTINCT job) AS jobs, round(sum(charged_ns) / 3.6e12, 3) AS gpu_hours
        FROM ranks GROUP BY node ORDER BY gpu_hours DESC, node LIMIT 10""",
    "findings": """
        SELECT id, priority, count(DISTINCT job || '/' || attempt) AS attempts,
               count(DISTINCT node) AS nodes
        FROM findings GROUP BY id, priority ORDER BY attempts DESC, id LIMIT 10""",
    "collectives whose ranks come far apart": """
        SELECT function, ranks, bytes, count(*) AS operations,
               round(quantile_cont(spread_ns, 0.5) / 1e6, 3) AS median_ms,
               round(quantile_cont(spread_ns, 0.99) / 1e6, 3) AS p99_ms
        FROM operations WHERE arrived = ranks
        GROUP BY function, ranks, bytes ORDER BY p99_ms DESC, function LIMIT 10""",
}


def export(analyze, table, jobs, path):
    result = subprocess.run([analyze, "export", "--table", table, "-o", path, *jobs], check=False)
    if result.returncode:
        sys.exit(f"fleet.py: {analyze} export --table {table} ended with {result.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--analyze", default="ncclspy-analyze", help="the program (default: on PATH)")
    parser.add_argument("--out", required=True, type=Path, help="directory of the Parquet files")
    parser.add_argument("jobs", nargs="+", help="directories with traces")
    args = parser.parse_args()
    try:
        import duckdb
    except ImportError:
        sys.exit("fleet.py: the package duckdb is not installed")
    args.out.mkdir(parents=True, exist_ok=True)
    base = duckdb.connect()
    with tempfile.TemporaryDirectory() as scratch:
        for table in TABLES:
            source = Path(scratch, table + ".csv")
            export(args.analyze, table, args.jobs, source)
            target = str(args.out / (table + ".parquet")).replace("'", "''")
            base.execute(f"COPY (SELECT * FROM read_csv('{source}', header = true, "
                         f"all_varchar = false, sample_size = -1)) TO '{target}' (FORMAT parquet)")
            base.execute(f"CREATE VIEW {table} AS SELECT * FROM '{target}'")
    for question, query in QUESTIONS.items():
        print(f"== {question}")
        answer = base.execute(query)
        print("\t".join(column[0] for column in answer.description))
        for row in answer.fetchall():
            print("\t".join("" if value is None else str(value) for value in row))


if __name__ == "__main__":
    main()
