"""Answers that must keep to a JSON schema, drawn at temperature 1.5 and checked with the jsonschema package. structured_client.py URL

STRUCTURED_COUNT=N  answers (default 40), STRUCTURED_BATCH=N  requests at once (default 16). Prints what masks cost.
"""
import concurrent.futures
import http.client
import json
import os
import re
import sys
import urllib.parse

import jsonschema

URL = urllib.parse.urlparse(sys.argv[1])
HEADERS = {"Authorization": "Bearer key-of-the-test", "Content-Type": "application/json"}
COUNT, BATCH = int(os.environ.get("STRUCTURED_COUNT", 40)), int(os.environ.get("STRUCTURED_BATCH", 16))
MAX_TOKENS = 512

TEXT = {"type": "string", "maxLength": 24}
NAME = {"type": "string", "minLength": 1, "maxLength": 12}
AGE = {"type": "integer", "minimum": 0, "maximum": 130}


def record(required=None, **properties):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required, "additionalProperties": False}


# Every text and list has an end, so that an answer that ends by length is the exception.
SCHEMAS = {
    "person": record(name=NAME, age=AGE, married={"type": "boolean"}),
    "optional": record(["id"], id={"type": "integer", "minimum": 1, "maximum": 9999}, note=TEXT, tag={"enum": ["a", "b", "c", None]}),
    "nested": record(user=record(name=NAME, address=record(street=TEXT, number=AGE)), active={"type": "boolean"}),
    "list": record(items={"type": "array", "items": NAME, "minItems": 1, "maxItems": 4}),
    "records": {"type": "array", "maxItems": 3, "items": record(x={"type": "integer", "minimum": -50, "maximum": 50}, label=NAME)},
    "tuple": {"type": "array", "prefixItems": [NAME, AGE, {"type": "boolean"}], "minItems": 3, "maxItems": 3, "items": False},
    "union": {"anyOf": [AGE, NAME, {"type": "null"}, record(kind={"const": "other"}, value=NAME)]},
    "tagged": {"oneOf": [record(kind={"const": "circle"}, radius=AGE), record(kind={"const": "square"}, side=AGE)]},
    "types": record(either={"type": ["integer", "null"], "minimum": 0, "maximum": 99}, text={"type": ["string", "boolean"], "maxLength": 8}),
    "pattern": record(code={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, zip={"type": "string", "pattern": "^[0-9]{5}$"}),
    "format": record(day={"type": "string", "format": "date"}, at={"type": "string", "format": "ipv4"}, id={"type": "string", "format": "uuid"}),
    "enum": record(level={"enum": ["low", "middle", "high"]}, size={"enum": [1, 2.5, "big", None, True]}),
    "range": record(p={"type": "number", "minimum": 0, "maximum": 1}, n={"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}),
    "even": record(n={"type": "integer", "multipleOf": 2, "minimum": 0, "maximum": 20}),
    "references": {"$defs": {"point": record(x=AGE, y=AGE)}, **record(start={"$ref": "#/$defs/point"}, end={"$ref": "#/$defs/point"})},
    "named": {"type": "object", "additionalProperties": AGE, "maxProperties": 3, "propertyNames": {"type": "string", "pattern": "^[a-z]{1,8}$"}},
    "implied": {"properties": {"a": {"maxLength": 5}, "b": {"minimum": 0, "maximum": 9, "type": "integer"}}, "required": ["a", "b"]},
    "unicode": record(**{"größe": AGE, "名前": NAME, "quote\"d": {"enum": ["tab\there", "ünïcode", "back\\slash"]}}),
}


def ask(number):
    name = list(SCHEMAS)[number % len(SCHEMAS)]
    connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=1800)
    body = {"messages": [{"role": "user", "content": f"Write a JSON object number {number} about {name}."}], "temperature": 1.5, "seed": number, "max_tokens": MAX_TOKENS,
            "response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": SCHEMAS[name]}}}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), HEADERS)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == 200, (name, answer)
    choice = answer["choices"][0]
    return name, number, choice["finish_reason"], choice["message"]["content"], answer["usage"]["completion_tokens"]


def metrics():
    connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=60)
    connection.request("GET", "/metrics", headers=HEADERS)
    text = connection.getresponse().read().decode()

    def total(name):
        return sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", text, re.M))

    return {n: total(n) for n in ("isotope:grammar_masks_total", "isotope:grammar_mask_seconds_total", "isotope:grammar_accept_seconds_total", "isotope:grammars_compiled_total",
                                  "isotope:grammar_compile_seconds_total", "process_cpu_seconds_total", "vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count")}


checkers = {name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
for schema in SCHEMAS.values():
    jsonschema.Draft202012Validator.check_schema(schema)
ends, tokens, wrong = {}, 0, []
before = metrics()
with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
    for name, number, finish, content, n in pool.map(ask, range(COUNT)):
        ends[finish] = ends.get(finish, 0) + 1
        tokens += n
        if number % 500 == 499:
            print(f"{number + 1} answers, {tokens} tokens, ends {ends}, {len(wrong)} not valid", flush=True)
        if finish == "length":
            print(f"by length: {name} {number}: {content[:100]!r}")
            continue
        try:
            checkers[name].validate(json.loads(content))
        except (ValueError, jsonschema.ValidationError) as e:
            wrong.append((name, number, content, str(e)[:200]))
after = metrics()
d = {k: after[k] - before[k] for k in after}
masks = max(d["isotope:grammar_masks_total"], 1)
mask, accept = (d[f"isotope:grammar_{n}_seconds_total"] / masks for n in ("mask", "accept"))
step = d["vllm:inter_token_latency_seconds_sum"] / max(d["vllm:inter_token_latency_seconds_count"], 1)
print(f"{int(d['isotope:grammars_compiled_total'])} schemas ready in {d['isotope:grammar_compile_seconds_total'] * 1e3:.0f} ms, {int(masks)} masks, {mask * 1e6:.0f} us each, "
      f"and {accept * 1e6:.0f} us to take a token; a step of {BATCH} sequences takes {step * 1e3:.1f} ms: masks and tokens take {100 * BATCH * (mask + accept) / max(step, 1e-9):.2f} % of it on one thread, "
      f"{100 * masks * (mask + accept) / max(d['process_cpu_seconds_total'], 1e-9):.2f} % of the time of all threads")
for w in wrong[:5]:
    print("INVALID", *w)
assert not wrong, f"{len(wrong)} answers are not valid"
assert set(ends) <= {"stop", "length"}, ends
assert ends.get("length", 0) < 0.01 * COUNT or (COUNT < 200 and ends.get("length", 0) <= 1), ends
print(f"ok structured: {COUNT} answers from {len(SCHEMAS)} schemas, {tokens} tokens, ends {ends}, all that stopped are valid")
