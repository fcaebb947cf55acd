"""Every schema of the JSON-Schema test suite (draft 2020-12, as the source package of jsonschema brings it): either an answer is drawn that is valid, or
the request is refused with the keyword and its path. json_schema_suite_client.py URL

SUITE_SHARE=N  only each N-th schema (default 1)
"""
import collections
import concurrent.futures
import http.client
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse

import jsonschema

URL = urllib.parse.urlparse(sys.argv[1])
HEADERS = {"Authorization": "Bearer key-of-the-test", "Content-Type": "application/json"}
FIELD = "structured_outputs.json"
# What a refusal must begin with: it names the keyword, the format, or why the whole cannot be held.
REASON = re.compile(r"the keyword '([^']+)'|(allOf|patternProperties) of several|the (format) '[^']+'|(the schema 'false')|(the reference) '|(the grammar cannot be held)|(the keywords) belong to different types")


def suite():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "jsonschema", "-d", folder, f"jsonschema=={importlib.metadata.version('jsonschema')}"],
                       check=True, capture_output=True)
        (name,) = os.listdir(folder)
        with tarfile.open(os.path.join(folder, name)) as tar:
            for member in tar.getmembers():
                if re.search(r"/json/tests/draft2020-12/[^/]+\.json$", member.name):
                    for group in json.load(tar.extractfile(member)):
                        yield os.path.basename(member.name)[:-5], group["description"], group["schema"]


def ask(schema):
    connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=600)
    body = {"prompt": "A JSON value: ", "max_tokens": 80, "temperature": 1, "seed": 1, "structured_outputs": {"json": schema}}
    connection.request("POST", "/v1/completions", json.dumps(body), HEADERS)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def judge(case):
    file, name, schema = case
    status, answer = ask(schema)
    if status == 400:
        message, param = answer["error"]["message"], answer["error"]["param"] or ""
        reason = REASON.match(message)
        if not param.startswith(FIELD) or not reason:
            return "UNCLEAR", f"{file}: {name}: {message} ({param})"
        return "refused", next(filter(None, reason.groups()))
    if status != 200:
        return "FAILED", f"{file}: {name}: {status} {answer}"
    choice = answer["choices"][0]
    if choice["finish_reason"] != "stop":
        return "cut", file
    try:
        jsonschema.Draft202012Validator(schema).validate(json.loads(choice["text"]))
    except (ValueError, jsonschema.ValidationError) as e:
        return "INVALID", f"{file}: {name}: {json.dumps(schema)[:200]} let {choice['text'][:100]!r} through: {str(e)[:200]}"
    except Exception as e:   # a schema elsewhere, which the validator would fetch
        return "UNCHECKED", f"{file}: {name}: {type(e).__name__}"
    return "valid", file


cases = list(suite())[:: int(os.environ.get("SUITE_SHARE", 1))]
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    results = list(pool.map(judge, cases))
counts = collections.Counter(kind for kind, _ in results)
for kind, what in results:
    if kind in ("UNCLEAR", "FAILED", "INVALID", "UNCHECKED"):
        print(kind, what)
print("refused for:", dict(collections.Counter(what for kind, what in results if kind == "refused").most_common()))
assert not {"UNCLEAR", "FAILED", "INVALID", "UNCHECKED"} & set(counts), counts
assert counts["valid"] > 0.2 * len(cases), counts
print(f"ok json_schema_suite: {len(cases)} schemas, {dict(counts)}")
