"""The official openai client: completions, chat, streams with usage, log-probabilities, errors. openai_client.py URL"""
import asyncio
import json
import math
import sys
import typing

import openai
import pydantic

URL, KEY, MODEL = sys.argv[1] + "/v1", "key-of-the-test", None
client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
MODEL = client.models.list().data[0].id
PARIS = "The capital of France is"


def check(holds, *what):
    if not holds:
        raise AssertionError(" ".join(map(str, what)))


def models():
    card = client.models.list().data[0]
    check(card.object == "model" and card.max_model_len == 2048, card)
    check(client.models.retrieve(MODEL).id == MODEL, "retrieve")


def completion():
    a, b = (client.completions.create(model=MODEL, prompt=PARIS, max_tokens=12, temperature=0) for _ in range(2))
    check("Paris" in a.choices[0].text, a)
    check(a.choices[0].text == b.choices[0].text, "greedy answers differ")
    check(a.choices[0].finish_reason == "length" and a.usage.completion_tokens == 12, a.usage)
    check(a.usage.total_tokens == a.usage.prompt_tokens + 12, a.usage)
    several = client.completions.create(model=MODEL, prompt=[PARIS, "One, two, three,"], max_tokens=4, temperature=0)
    check([c.index for c in several.choices] == [0, 1], several)
    check(a.choices[0].text.startswith(several.choices[0].text), "the same prompt in a list")


def chat():
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "The capital of France is Paris. What is the capital of France?"}], temperature=0, max_completion_tokens=40)
    message = answer.choices[0].message
    check(message.role == "assistant" and "Paris" in message.content, answer)
    check(answer.choices[0].finish_reason in ("stop", "length"), answer)
    check(answer.system_fingerprint, "fingerprint")
    parts = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": [{"type": "text", "text": "The capital of France is Paris. What is the capital of France?"}]}],
                                           temperature=0, max_tokens=40)
    check(parts.choices[0].message.content == message.content, "text parts", parts)


def stream():
    request = dict(model=MODEL, messages=[{"role": "user", "content": "Count to five."}], temperature=0.8, seed=11, max_tokens=40)
    whole = client.chat.completions.create(**request)
    text, usage, finish, roles = "", None, [], []
    for chunk in client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}):
        if not chunk.choices:
            usage = chunk.usage
            continue
        check(usage is None and chunk.usage is None, "usage comes last")
        delta = chunk.choices[0].delta
        roles += [delta.role] if delta.role else []
        text += delta.content or ""
        finish += [chunk.choices[0].finish_reason] if chunk.choices[0].finish_reason else []
    check(text == whole.choices[0].message.content, repr(text), "is not", repr(whole.choices[0].message.content))
    check(roles == ["assistant"] and finish == [whole.choices[0].finish_reason], roles, finish)
    check(usage.completion_tokens == whole.usage.completion_tokens and usage.prompt_tokens == whole.usage.prompt_tokens, usage)
    text = "".join(c.choices[0].text for c in client.completions.create(model=MODEL, prompt=PARIS, max_tokens=8, temperature=0, stream=True))
    check(text == client.completions.create(model=MODEL, prompt=PARIS, max_tokens=8, temperature=0).choices[0].text, text)


def logprobs():
    scored = client.completions.create(model=MODEL, prompt=PARIS + " Paris", max_tokens=1, temperature=0, logprobs=3, echo=True)
    lp, text = scored.choices[0].logprobs, scored.choices[0].text
    check(lp.token_logprobs[0] is None and lp.top_logprobs[0] is None, lp)
    check("".join(lp.tokens) == text, lp.tokens, text)
    check(all(text[o:].startswith(t) for o, t in zip(lp.text_offset, lp.tokens)), lp.text_offset)
    check(len(lp.tokens) == scored.usage.prompt_tokens + 1, scored.usage)
    check(all(v <= 0 and math.isfinite(v) for v in lp.token_logprobs[1:]), lp.token_logprobs)
    greedy = max(lp.top_logprobs[-1], key=lp.top_logprobs[-1].get)
    check(greedy == lp.tokens[-1], "the greedy token is not the likeliest", lp.top_logprobs[-1], lp.tokens[-1])
    none = client.completions.create(model=MODEL, prompt=PARIS, max_tokens=0, logprobs=1, echo=True)
    check(none.choices[0].logprobs.token_logprobs[1:] == lp.token_logprobs[1:len(none.choices[0].logprobs.tokens)], "scores depend on the length")
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Say hello."}], temperature=0, max_tokens=10, logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    check("".join(c.token for c in content) == answer.choices[0].message.content, answer)
    check(all(len(c.top_logprobs) == 2 and c.logprob == c.top_logprobs[0].logprob for c in content), content)
    check(b"".join(bytes(c.bytes) for c in content if c.token) .decode().startswith(answer.choices[0].message.content), "bytes")


def choices():
    request = dict(model=MODEL, prompt="Once upon a time", max_tokens=16, temperature=1, seed=7)
    a, b = (client.completions.create(**request, n=3) for _ in range(2))
    texts = [c.text for c in a.choices]
    check(len(set(texts)) == 3, texts)
    check(texts == [c.text for c in b.choices], "the set does not repeat")
    check(client.completions.create(**request).choices[0].text == texts[0], "choice 0 is not the single run")
    best = client.completions.create(**request, best_of=4, n=1)
    check(best.usage.completion_tokens == 64, best.usage)


def options():
    stopped = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=30, temperature=0, stop=[" five", "six"])
    check(stopped.choices[0].finish_reason == "stop" and " five" not in stopped.choices[0].text, stopped)
    extra = client.completions.create(model=MODEL, prompt=PARIS, max_tokens=4, seed=5,
                                      extra_body={"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.0, "ignore_eos": True, "timings": True, "return_token_ids": True})
    check(extra.timings["seed"] == 5 and extra.timings["predicted_n"] == 4, extra)
    check(len(extra.choices[0].token_ids) == 4, extra)
    banned = client.completions.create(model=MODEL, prompt=PARIS, max_tokens=1, temperature=0, logit_bias={str(extra.choices[0].token_ids[0]): -100})
    check(banned.choices[0].text != extra.choices[0].text[: len(banned.choices[0].text)], banned)
    again = client.completions.create(model=MODEL, prompt=PARIS * 20, max_tokens=1, temperature=0)
    again = client.completions.create(model=MODEL, prompt=PARIS * 20, max_tokens=1, temperature=0)
    check(again.usage.prompt_tokens_details.cached_tokens > 0, again.usage)


def refused(kind, **request):
    try:
        client.completions.create(**{"model": MODEL, "prompt": "a", **request})
    except kind as e:
        return e
    raise AssertionError(f"{request} was not refused")


def errors():
    e = refused(openai.NotFoundError, model="other")
    check(e.param == "model" and e.type == "NotFoundError", e.body)
    e = refused(openai.BadRequestError, extra_body={"top_k": -7})
    check(e.param == "top_k" and "-7" in e.message, e.body)
    e = refused(openai.BadRequestError, prompt="word " * 5000)
    check(e.body["n_ctx"] == 2048 and e.body["n_prompt_tokens"] > 5000, e.body)
    for bad in ({"prompt": [-1]}, {"temperature": -1}, {"logit_bias": {"999999": 1}}, {"max_tokens": -1}, {"suffix": "x"}):
        refused(openai.BadRequestError, **bad)
    stranger = openai.OpenAI(base_url=URL, api_key="wrong", max_retries=0)
    try:
        stranger.models.list()
    except openai.AuthenticationError:
        return
    raise AssertionError("a wrong key was let in")


def together():
    """Eight at once, some of which are dropped: the others get what they get alone."""
    prompts = [f"{PARIS} {i}" for i in range(8)]
    alone = [client.completions.create(model=MODEL, prompt=p, max_tokens=24, temperature=0).choices[0].text for p in prompts]

    async def one(c, i):
        text = ""
        s = await c.completions.create(model=MODEL, prompt=prompts[i], max_tokens=24, temperature=0, stream=True)
        async for chunk in s:
            text += chunk.choices[0].text
            if i % 3 == 2 and len(text) > 10:
                await s.close()
                return None
        return text

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as c:
            return await asyncio.gather(*(one(c, i) for i in range(8)))

    got = asyncio.run(all_of_them())
    check(all(g is None or g == a for g, a in zip(got, alone)), got, alone)


TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}]
ASK = [{"role": "user", "content": "The capital of France is Paris. What is the capital of France?"}]


def tools():
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        answer = client.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False, temperature=0, max_tokens=100)
        call = answer.choices[0].message.tool_calls[0]
        check(answer.choices[0].finish_reason == "tool_calls" and call.function.name == "get_weather", answer)
        check(json.loads(call.function.arguments)["city"] in ("Paris", "Rome"), answer)
    again = client.chat.completions.create(model=MODEL, messages=ASK + [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}], tools=TOOLS, max_tokens=8)
    check(again.choices[0].message, again)


class Person(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=12)]
    age: typing.Annotated[int, pydantic.Field(ge=0, le=130)]
    tags: typing.Annotated[list[typing.Literal["a", "b"]], pydantic.Field(max_length=3)]


def parse():
    answer = client.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": "A person, please."}], response_format=Person, temperature=1.2, max_tokens=300)
    check(isinstance(answer.choices[0].message.parsed, Person), answer)
    with client.chat.completions.stream(model=MODEL, messages=ASK, response_format=Person, temperature=1.2, max_tokens=300) as s:
        final = s.get_final_completion()
    check(isinstance(final.choices[0].message.parsed, Person), final)
    with client.chat.completions.stream(model=MODEL, messages=ASK, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=100) as s:
        call = s.get_final_completion().choices[0].message.tool_calls[0]
    check(call.function.parsed_arguments["city"] in ("Paris", "Rome"), call)


def responses():
    r = client.responses.create(model=MODEL, input=ASK[0]["content"], instructions="You answer in one sentence.", temperature=0, max_output_tokens=30)
    check(r.object == "response" and r.status in ("completed", "incomplete") and "Paris" in r.output_text, r)
    check(r.usage.output_tokens > 0 and r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens, r.usage)
    check(client.responses.retrieve(r.id).output_text == r.output_text, "retrieve")
    further = client.responses.create(model=MODEL, input="And of Italy?", previous_response_id=r.id, temperature=0, max_output_tokens=8)
    check(further.usage.input_tokens > r.usage.output_tokens and further.previous_response_id == r.id, further)
    with client.responses.stream(model=MODEL, input=ASK[0]["content"], instructions="You answer in one sentence.", temperature=0, max_output_tokens=30) as s:
        kinds = [e.type for e in s]
        final = s.get_final_response() if "response.completed" in kinds else None
    check(kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] in ("response.completed", "response.incomplete") and "response.output_text.delta" in kinds, kinds)
    check(final is None or final.output_text == r.output_text, final)
    cut = client.responses.create(model=MODEL, input="x", max_output_tokens=1)
    check(cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens", cut)
    parsed = client.responses.parse(model=MODEL, input="A person, please.", text_format=Person, max_output_tokens=300)
    check(isinstance(parsed.output_parsed, Person), parsed)
    tool = {"type": "function", **TOOLS[0]["function"]}
    call = client.responses.create(model=MODEL, input=ASK, tools=[tool], tool_choice="required", parallel_tool_calls=False, max_output_tokens=100)
    check(call.output[-1].type == "function_call" and json.loads(call.output[-1].arguments)["city"] in ("Paris", "Rome"), call)
    answered = client.responses.create(model=MODEL, input=[*ASK, call.output[-1].model_dump(), {"type": "function_call_output", "call_id": call.output[-1].call_id, "output": "18 degrees"}], tools=[tool],
                                       max_output_tokens=8)
    check(answered.output or answered.usage, answered)
    client.responses.delete(r.id)
    try:
        client.responses.retrieve(r.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a deleted response is still there")

    async def later():
        async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as c:
            text = ""
            async for e in await c.responses.create(model=MODEL, input=ASK[0]["content"], instructions="You answer in one sentence.", temperature=0, max_output_tokens=30, stream=True):
                text += e.delta if e.type == "response.output_text.delta" else ""
            return text

    check(asyncio.run(later()) == r.output_text, "async")


for test in (models, completion, chat, stream, logprobs, choices, options, errors, together, tools, parse, responses):
    test()
    print("ok", test.__name__)
