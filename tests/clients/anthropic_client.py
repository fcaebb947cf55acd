"""The official anthropic client: messages, streams, tools, counting, errors. anthropic_client.py URL"""
import asyncio
import sys

import anthropic

URL, KEY = sys.argv[1], "key-of-the-test"
client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
MODEL = client.models.list().data[0].id
ASK = [{"role": "user", "content": "The capital of France is Paris. What is the capital of France?"}]
TOOL = {"name": "get_weather", "description": "Weather of a city", "input_schema": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"]}}


def check(holds, *what):
    if not holds:
        raise AssertionError(" ".join(map(str, what)))


def create(**more):
    return client.messages.create(**{"model": MODEL, "max_tokens": 30, "messages": ASK, "extra_body": {"temperature": 0}, **more})


def message():
    m = create(system="You answer in one sentence.")
    check(m.type == "message" and m.role == "assistant" and m.stop_reason in ("end_turn", "max_tokens"), m)
    check(m.content[0].type == "text" and "Paris" in m.content[0].text, m)
    check(m.usage.output_tokens > 0 and m.usage.input_tokens + m.usage.cache_read_input_tokens > 10, m.usage)
    blocks = create(system=[{"type": "text", "text": "You answer in one sentence."}], messages=[{"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]}])
    check(blocks.content[0].text == m.content[0].text, "blocks", blocks)
    cut = create(max_tokens=2)
    check(cut.stop_reason == "max_tokens" and cut.usage.output_tokens == 2, cut)
    stopped = create(stop_sequences=["Paris"])
    check(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "Paris" and "Paris" not in stopped.content[0].text, stopped)


def stream():
    whole = create()
    with client.messages.stream(model=MODEL, max_tokens=30, messages=ASK, extra_body={"temperature": 0}) as s:
        kinds = [e.type for e in s]
        final = s.get_final_message()
    check(final.content[0].text == whole.content[0].text, final, whole)
    check(final.usage.output_tokens == whole.usage.output_tokens and final.stop_reason == whole.stop_reason, final)
    check(kinds[0] == "message_start" and kinds[-1] == "message_stop" and "content_block_start" in kinds and "message_delta" in kinds, kinds)

    async def later():
        async with anthropic.AsyncAnthropic(base_url=URL, api_key=KEY, max_retries=0) as c:
            async with c.messages.stream(model=MODEL, max_tokens=30, messages=ASK, extra_body={"temperature": 0}) as s:
                return "".join([t async for t in s.text_stream])

    check(asyncio.run(later()) == whole.content[0].text, "async")


def tools():
    m = create(tools=[TOOL], tool_choice={"type": "tool", "name": "get_weather"}, max_tokens=100)
    use = m.content[-1]
    cut = m.usage.output_tokens == 100  # the small model may write on behind its call
    check(m.stop_reason == ("max_tokens" if cut else "tool_use") and use.type == "tool_use" and use.name == "get_weather" and use.input["city"] in ("Paris", "Rome"), m)
    again = create(tools=[TOOL], messages=ASK + [{"role": "assistant", "content": [use.model_dump(include={"type", "id", "name", "input"})]},
                                                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "18 degrees"}]}])
    check(again.content, again)
    with client.messages.stream(model=MODEL, max_tokens=100, messages=ASK, tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}) as s:
        final = s.get_final_message()
    check(final.stop_reason == "tool_use" and final.content[-1].input["city"] in ("Paris", "Rome"), final)


def counting():
    n = client.messages.count_tokens(model=MODEL, messages=ASK, system="Short.").input_tokens
    m = create(system="Short.", max_tokens=1)
    check(n == m.usage.input_tokens + m.usage.cache_read_input_tokens, n, m.usage)


def refused(kind, **more):
    try:
        create(**more)
    except kind as e:
        return e
    raise AssertionError(f"{more} was not refused")


def errors():
    e = refused(anthropic.NotFoundError, model="other")
    check(e.body["type"] == "error" and e.body["error"]["type"] == "not_found_error", e.body)
    e = refused(anthropic.BadRequestError, messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]}])
    check("messages[0].content[0].type" in e.body["error"]["message"], e.body)
    refused(anthropic.BadRequestError, extra_body={"temperature": -1})
    refused(anthropic.BadRequestError, messages=[])
    try:
        anthropic.Anthropic(base_url=URL, api_key="wrong", max_retries=0).messages.create(model=MODEL, max_tokens=1, messages=ASK)
    except anthropic.AuthenticationError as e:
        check(e.body["error"]["type"] == "authentication_error", e.body)
        return
    raise AssertionError("a wrong key was let in")


for test in (message, stream, tools, counting, errors):
    test()
    print("ok", test.__name__)
