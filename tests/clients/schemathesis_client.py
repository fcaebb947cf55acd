"""schemathesis over /openapi.json: generated requests, valid and not; no answer may be a 5xx or leave its schema. schemathesis_client.py URL

SCHEMATHESIS_CASES=N  requests at least (default 2000)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

URL = sys.argv[1]
CASES = int(os.environ.get("SCHEMATHESIS_CASES", 2000))
document = json.load(urllib.request.urlopen(URL + "/openapi.json"))
for schema in document["components"]["schemas"].values():
    schema.get("properties", {}).pop("deadline_ms", None)   # a deadline that passes is answered with the 503 that the client asked for
operations = sum(len(methods) for methods in document["paths"].values())
checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "openapi.json")
    path.write_text(json.dumps(document))
    command = [pathlib.Path(sys.executable).with_name("schemathesis"), "run", str(path), "--url", URL, "--checks", checks, "--max-examples", str(-(-CASES // operations) * 2), "--seed", "1",
               "-H", "Authorization: Bearer key-of-the-test", "--request-timeout", "120", "--workers", "1", "--phases", "coverage,fuzzing", "--suppress-health-check", "all", "--no-color",
               "--continue-on-failure"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
print(done.stdout[-6000:])
assert done.returncode == 0, done.returncode
found = re.search(r"(\d+) generated", done.stdout)
assert found and int(found[1]) >= CASES, found
urllib.request.urlopen(URL + "/health")
print(f"ok schemathesis: {found[1]} requests to {operations} operations")
