#!/usr/bin/env python3
"""What the official SDKs make of every case, beside what relayproof makes of it.

  compare.py RELAYPROOF CACHE [--update]

Plays tests/cases with `relayproof simulate --case`, replays each case through the SDKs of its protocol
and through `relayproof probe`, and holds the answers to table.tsv: any difference fails. `--update`
writes the table anew. A stream that relayproof takes for whole and valid must be accepted by every SDK,
with the same text, but for EXCEPTIONS. Last, every SDK talks to the embedded relay's honest answers.
Loopback only. Exit 0 passed, 1 failed.
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent / "cases"
TABLE = HERE / "table.tsv"
LIMIT_S = 12            # longer than any case that ends; what takes longer hangs
PROBES_AT_A_TIME = 2

RELAYPROOF = str(pathlib.Path(sys.argv[1]).resolve())
CACHE = pathlib.Path(sys.argv[2]).resolve()
UPDATE = "--update" in sys.argv[3:]

# Column of the table: the command, and the protocols that the SDK knows.
SDKS = {
    "openai-python": ([CACHE / "python/bin/python", HERE / "replay.py"], ["openai-chat", "openai-responses"]),
    "openai-python-1": ([CACHE / "python-older/bin/python", HERE / "replay.py"], ["openai-chat", "openai-responses"]),
    "openai-node": (["node", CACHE / "node/replay.mjs"], ["openai-chat", "openai-responses"]),
    "anthropic-python": ([CACHE / "python/bin/python", HERE / "replay.py"], ["anthropic-messages"]),
    "anthropic-node": (["node", CACHE / "node/replay.mjs"], ["anthropic-messages"]),
    "google-genai": ([CACHE / "python/bin/python", HERE / "replay.py"], ["gemini"]),
}

# Legal, and taken for whole by us, but not by this SDK: (case, SDK) and why.
NO_DATA = "by the rules of event streams a block without data dispatches nothing; this SDK parses it as JSON"
NO_LAST_CHUNK = "the answer is whole up to its end mark, only HTTP's own end is missing (we warn); this SDK reads on to it"
EXCEPTIONS = {
    ("007-retry-only-block", "openai-python"): NO_DATA,
    ("007-retry-only-block", "openai-python-1"): NO_DATA,
    ("008-sticky-id-then-comment", "openai-python"): NO_DATA,
    ("008-sticky-id-then-comment", "openai-python-1"): NO_DATA,
    ("010-event-only-ping-frame", "openai-python"): NO_DATA,
    ("010-event-only-ping-frame", "openai-python-1"): NO_DATA,
    ("010-event-only-ping-frame", "openai-node"): NO_DATA,
    ("036-fin-after-done-without-last-chunk", "openai-python-1"): NO_LAST_CHUNK,
    ("036-fin-after-done-without-last-chunk", "openai-node"): NO_LAST_CHUNK,
}

NATURAL_END = {"stop", "completed", "response.completed", "end_turn", "STOP"}
# Classes that are an error in place of an answer, as `parse_success` counts them.
ERRORS = {"error-as-content", "error-in-stream", "fake-200-json-error", "fake-200-html", "fake-200-empty"}

passed, failed = [], []


def check(claim, wrong):
    (failed if wrong else passed).append(claim)
    print(("FAILED  " if wrong else "ok      ") + claim, *wrong, sep="\n        ", flush=True)


def without_v1(base):
    return base.removesuffix("/v1")


def simulate(*words):
    child = subprocess.Popen([RELAYPROOF, "simulate", *words], stdout=subprocess.PIPE, text=True)
    return child, child.stdout.readline().strip()


def jobs_of(cases, protocols):
    """One streamed call for each case of these protocols."""
    for case in cases:
        if case["protocol"] in protocols:
            asked = case.get("request") or {}
            yield {"id": case["id"], "protocol": case["protocol"], "base": case["base"], "stream": True,
                   "model": asked.get("model", "test-model"), "usage": bool(asked.get("include_usage")),
                   "max_tokens": asked.get("max_tokens"), "strict": False}


def replay(sdk, jobs):
    command, _ = SDKS[sdk]
    asked = json.dumps({"limit_s": LIMIT_S, "jobs": list(jobs)})
    environment = dict(os.environ, NO_PROXY="*", no_proxy="*")
    done = subprocess.run([str(word) for word in command], input=asked, capture_output=True, text=True,
                          env=environment, timeout=900)
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    if done.returncode != 0 or not answers:
        raise RuntimeError(f"{sdk} ended with {done.returncode}: {done.stderr[-2000:]}")
    return answers


def probe(job):
    command = [RELAYPROOF, "probe", job["base"], "--content", "--format", "json", "--protocol", job["protocol"],
               "--model", job["model"], "--timeout", "first_token=5s,idle=5s,total=60s"]
    command += ["--usage"] * job["usage"]
    command += ["--max-tokens", str(job["max_tokens"])] if job["max_tokens"] else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    try:
        return job["id"], json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"{job['id']}: no JSON: {done.stdout} {done.stderr}") from None


def cell(answer, ours):
    if answer is None:
        return "-"
    other = answer["answer"] == "accepts" and answer["text"] != ours["content"]
    return "accepts other text" if other else answer["answer"]


def is_whole(seen):
    """Whether we say that a reader may trust what came, and that all of it came."""
    classes = {finding["class"] for finding in seen["findings"]}
    return seen["status"] in range(200, 300) and seen["parse_ok"] and not seen["interrupted"] and not classes & ERRORS


def compare(cases):
    protocols = {protocol for _, known in SDKS.values() for protocol in known}
    with concurrent.futures.ThreadPoolExecutor(len(SDKS)) as pool:
        replays = {sdk: pool.submit(replay, sdk, jobs_of(cases, known)) for sdk, (_, known) in SDKS.items()}
        with concurrent.futures.ThreadPoolExecutor(PROBES_AT_A_TIME) as probes:
            ours = dict(probes.map(probe, jobs_of(cases, protocols)))
        answers = {sdk: {answer["id"]: answer for answer in replay.result()} for sdk, replay in replays.items()}
    lines = ["\t".join(["case", "relayproof", "parse_ok", *SDKS])]
    refused, kept = [], set()
    for case in cases:
        name = case["id"]
        if name not in ours:
            continue
        seen = ours[name]
        cells = {sdk: cell(answers[sdk].get(name), seen) for sdk in SDKS}
        lines.append("\t".join([name, seen["outcome"], "yes" if seen["parse_ok"] else "no", *cells.values()]))
        for sdk, said in cells.items():
            if said == "-" or said == "accepts" or not is_whole(seen):
                continue
            if (name, sdk) in EXCEPTIONS:
                kept.add((name, sdk))
            else:
                refused.append(f"{name}: whole and valid for us ({seen['outcome']}), {sdk} {said}: "
                               f"{answers[sdk][name].get('why', '')}")
    refused += [f"{name}, {sdk}: no exception any more" for name, sdk in EXCEPTIONS.keys() - kept]
    text = "\n".join(lines) + "\n"
    if UPDATE:
        TABLE.write_text(text)
    held = TABLE.read_text().splitlines() if TABLE.exists() else []
    wrong = [f"table: {line}" for line in held if line not in lines] + [f"  seen: {line}" for line in lines if line not in held]
    check(f"the table of {len(lines) - 1} cases and {len(SDKS)} SDKs holds", wrong)
    docs = (HERE.parent.parent / "docs/streams.md").read_text().splitlines()
    check("docs/streams.md counts what the table holds", [row for row in counted(lines) if row not in docs])
    check("what we take for whole and valid, every SDK accepts with the same text, but for "
          f"{len(EXCEPTIONS)} exceptions", refused)


def counted(lines):
    """The rows of the table in docs/streams.md: what each SDK does with failures, and with what is legal."""
    rows = [line.split("\t")[1:] for line in lines[1:]]
    for index, sdk in enumerate(SDKS):
        said = [(row[0] == "ok", row[2 + index].split()[0]) for row in rows if row[2 + index] != "-"]
        count = [sum(one == (ok, how) for one in said) for ok in (False, True) for how in ("accepts", "raises", "hangs")]
        yield f"| {sdk} {version(sdk)} | " + " | ".join(map(str, count)) + " |"


def version(sdk):
    """The pinned version."""
    name = {"anthropic-python": "anthropic", "google-genai": "google-genai"}.get(sdk, "openai")
    if sdk.endswith("-node"):
        pins = json.loads((HERE / "package.json").read_text())["dependencies"]
        return pins["openai" if name == "openai" and sdk == "openai-node" else "@anthropic-ai/sdk"]
    pins = (HERE / ("requirements-older.txt" if sdk.endswith("-1") else "requirements.txt")).read_text()
    return dict(line.split("==") for line in pins.split())[name]


def honest(base):
    """Every SDK and the relay's own answers: no complaint, text, a natural end."""
    for sdk, (_, known) in SDKS.items():
        jobs = []
        for protocol in known:
            for stream in (True, False):
                place = base if protocol.startswith("openai") else without_v1(base)
                jobs.append({"id": protocol, "protocol": protocol, "base": place, "model": "test-model", "usage": True,
                             "max_tokens": None, "stream": stream, "strict": True})
        wrong = [f"{answer['id']}, stream {answer['stream']}: {answer}" for answer in replay(sdk, jobs)
                 if answer["answer"] != "accepts" or not answer["text"] or answer.get("finish") not in NATURAL_END]
        check(f"{sdk} has no complaint about honest answers in {' and '.join(known)}, streamed and whole", wrong)


def main():
    relay, base = simulate("--tokens", "24", "--case", str(CASES))
    try:
        cases = [yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("*.yaml"))]
        bases = dict(relay.stdout.readline().split() for _ in cases)
        for case in cases:
            case["base"] = bases[case["id"]]
        compare(cases)
        honest(base)
    finally:
        relay.kill()
        relay.wait()


shutil.copy(HERE / "replay.mjs", CACHE / "node/replay.mjs")
main()
print(f"{len(passed)} passed, {len(failed)} failed")
sys.exit(1 if failed else 0)
