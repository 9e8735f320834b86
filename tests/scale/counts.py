"""The spans of a run in a table as the Collector's ClickHouse exporter makes it, the query of the
documentation over it, and its counts against those of `relayproof judge --format json`."""

import json
import re
import sys
from pathlib import Path

import chdb

document, work = Path(sys.argv[1]), Path(sys.argv[2])
query = re.search(r"```sql\n(.*?)```", document.read_text(), re.S).group(1)

KINDS = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"]
CODES = ["Unset", "Ok", "Error"]


def text(value):
    """An attribute as the exporter writes it: everything is text there."""
    kind, value = next(iter(value.items()))
    if kind == "boolValue":
        return "true" if value else "false"
    if kind == "arrayValue":
        return json.dumps([next(iter(one.values())) for one in value.get("values", [])])
    return str(value)


def attributes(of):
    return {one["key"]: text(one["value"]) for one in of}


rows = []
for line in (work / "runs" / "r" / "spans.otlp.jsonl").read_text().splitlines():
    for resource in json.loads(line).get("resourceSpans", []):
        own = attributes(resource["resource"]["attributes"])
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                rows.append(
                    {
                        "Timestamp": f"{start // 10**9}.{start % 10**9:09}",
                        "TraceId": span["traceId"],
                        "SpanId": span["spanId"],
                        "ParentSpanId": span.get("parentSpanId", ""),
                        "SpanName": span["name"],
                        "SpanKind": KINDS[span["kind"]],
                        "ServiceName": own["service.name"],
                        "ResourceAttributes": own,
                        "SpanAttributes": attributes(span.get("attributes", [])),
                        "Duration": end - start,
                        "StatusCode": CODES[span.get("status", {}).get("code", 0)],
                    }
                )
assert len(rows) > 1000, len(rows)
# What an exporter sends again, it sends as it was.
rows += rows[::7]
spans = work / "rows.jsonl"
spans.write_text("".join(json.dumps(row) + "\n" for row in rows))

session = chdb.session.Session(str(work / "store"))
session.query("CREATE DATABASE otel ENGINE = Atomic")
session.query("USE otel")
session.query(
    """
    CREATE TABLE otel_traces (
      Timestamp DateTime64(9),
      TraceId String,
      SpanId String,
      ParentSpanId String,
      SpanName LowCardinality(String),
      SpanKind LowCardinality(String),
      ServiceName LowCardinality(String),
      ResourceAttributes Map(LowCardinality(String), String),
      SpanAttributes Map(LowCardinality(String), String),
      Duration UInt64,
      StatusCode LowCardinality(String)
    ) ENGINE = MergeTree ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
    """
)
session.query(f"INSERT INTO otel_traces SELECT * FROM file('{spans}', 'JSONEachRow')")
counts = str(session.query(query)).strip()
(work / "counts.jsonl").write_text(counts + "\n")

found = {}
for row in map(json.loads, counts.splitlines()):
    n, failures = found.get((row["cell"], row["objective"]), (0, 0))
    found[row["cell"], row["objective"]] = (n + int(row["n"]), failures + int(row["failures"]))
# The same without stretches of time: what a run is judged by.
(work / "samples.jsonl").write_text(
    "".join(
        json.dumps({"cell": cell, "objective": objective, "n": n, "failures": failures}) + "\n"
        for (cell, objective), (n, failures) in found.items()
    )
)
judged = json.loads((work / "judged.json").read_text())
wanted = {}
for cell in judged["cells"]:
    for verdict in cell["verdicts"]:
        wanted[cell["cell"], verdict["objective"]] = (verdict["n"], verdict["failures"])
assert len(wanted) == 8, wanted
assert any(failures for _, failures in wanted.values()), wanted
if found != wanted:
    for key in sorted(set(found) | set(wanted)):
        print(key, "query", found.get(key), "judge", wanted.get(key))
    sys.exit("the counts differ")
print(f"{len(rows)} rows, {len(wanted)} objectives: the same n and failures")
