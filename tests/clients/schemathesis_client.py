"""schemathesis over /openapi.json: generated requests, valid and not; no answer may be a 5xx or leave its schema. schemathesis_client.py URL

SCHEMATHESIS_CASES=N  requests at least (default 2000)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

URL = sys.argv[1]
CASES = int(os.environ.get("SCHEMATHESIS_CASES", 2000))
document = json.load(urllib.request.urlopen(URL + "/openapi.json"))
operations = sum(len(methods) for methods in document["paths"].values())
checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
command = [pathlib.Path(sys.executable).with_name("schemathesis"), "run", URL + "/openapi.json", "--checks", checks, "--max-examples", str(-(-CASES // operations) * 2), "--seed", "1",
           "-H", "Authorization: Bearer key-of-the-test", "--request-timeout", "120", "--workers", "2", "--phases", "coverage,fuzzing", "--suppress-health-check", "all", "--no-color",
           "--continue-on-failure"]
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(done.stdout[-6000:])
assert done.returncode == 0, done.returncode
found = re.search(r"(\d+) generated", done.stdout)
assert found and int(found[1]) >= CASES, found
urllib.request.urlopen(URL + "/health")
print(f"ok schemathesis: {found[1]} requests to {operations} operations")
