"""JUnit XML of relayproof against its schema, and as junitparser reads it: junit.py XSD FOLDER."""

import pathlib
import sys

import junitparser
import xmlschema

schema = xmlschema.XMLSchema(sys.argv[1])
folder = pathlib.Path(sys.argv[2])


def read(name):
    path = folder / name
    schema.validate(str(path))
    suites = junitparser.JUnitXml.fromfile(str(path))
    seen = {}
    for suite in suites:
        for case in suite:
            kinds = [type(one).__name__.lower() for one in case.result] or ["passed"]
            seen[f"{suite.name}: {case.name}"] = kinds
            if kinds != ["skipped"] and suite.name != "not measured":
                properties = {one.name: one.value for one in case.child(junitparser.Properties)}
                assert int(properties["n"]) > 0, properties
                assert 0 <= float(properties["lower"]) <= float(properties["upper"]) <= 1, properties
                if kinds == ["failure"]:
                    assert len(properties["trace_id"]) == 32, properties
    return suites, seen


expected = {}
for relay, broken in (("cutting", True), ("fine", False)):
    cell = f"{relay}/test-model/default"
    for objective, breaks in (
        ("ttft.p50 < 20s", False),
        ("interruption < 50%", True),
        ("parse_success >= 50%", False),
        ("usable >= 50%", True),
    ):
        expected[f"{cell}: {objective}"] = ["failure" if broken and breaks else "passed"]
again, seen = read("again.xml")
assert seen == expected, seen
assert (again.tests, again.failures, again.errors, again.skipped) == (8, 2, 0, 0)

# The run itself also knows what was not measured.
expected["not measured: later/test-model/default"] = ["skipped"]
expected["not measured: keyless/test-model/default"] = ["error"]
run, seen = read("run.xml")
assert seen == expected, seen
assert (run.tests, run.failures, run.errors, run.skipped) == (10, 2, 1, 1)
print("JUnit: 18 cases in two files, valid and read as meant")
