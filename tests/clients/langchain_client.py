"""langchain-openai: chat, streams, structured output, and an agent whose loop calls a tool and answers. langchain_client.py URL"""
import asyncio
import sys
import typing

import pydantic
import requests
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

URL, KEY = sys.argv[1] + "/v1", "key-of-the-test"
MODEL = requests.get(URL + "/models", headers={"Authorization": f"Bearer {KEY}"}).json()["data"][0]["id"]
LOOP = asyncio.Runner()   # the client keeps its connections, so that they must not outlive their loop
ASK = [SystemMessage("You answer in one sentence."), HumanMessage("The capital of France is Paris. What is the capital of France?")]


def check(holds, *what):
    if not holds:
        raise AssertionError(" ".join(map(str, what)))


def model(**more):
    return ChatOpenAI(**{"model": MODEL, "base_url": URL, "api_key": KEY, "temperature": 0, "max_tokens": 40, "max_retries": 0, **more})


def chat():
    answer = model().invoke(ASK)
    check("Paris" in answer.content, answer)
    check(answer.usage_metadata["total_tokens"] == answer.usage_metadata["input_tokens"] + answer.usage_metadata["output_tokens"] > 0, answer.usage_metadata)
    check(answer.response_metadata["finish_reason"] in ("stop", "length"), answer.response_metadata)
    pieces = list(model(stream_usage=True).stream(ASK))
    check("".join(p.content for p in pieces) == answer.content, pieces, answer)
    check([p.usage_metadata["output_tokens"] for p in pieces if p.usage_metadata][-1] == answer.usage_metadata["output_tokens"], pieces)
    check(model(use_responses_api=True).invoke(ASK).text == answer.content, "responses")
    scored = model(logprobs=True, top_logprobs=2).invoke(ASK)
    check(scored.content == answer.content and len(scored.response_metadata["logprobs"]["content"]) > 0, scored)
    both = model().batch([ASK, ASK[1:]])
    check(both[0].content == answer.content, both)
    check("Paris" in OpenAI(model=MODEL, base_url=URL, api_key=KEY, temperature=0, max_tokens=12).invoke("The capital of France is"), "completion")

    async def later():
        return "".join([p.content async for p in model().astream(ASK)])

    check(LOOP.run(later()) == answer.content, "async")


class Person(pydantic.BaseModel):
    """A person."""
    name: typing.Annotated[str, pydantic.Field(max_length=12)]
    age: typing.Annotated[int, pydantic.Field(ge=0, le=130)]


def structured():
    for method in ("json_schema", "function_calling"):
        got = model(max_tokens=200, temperature=1).with_structured_output(Person, method=method).invoke("A person, please.")
        check(isinstance(got, Person), method, got)
    got = model(max_tokens=200).with_structured_output({"title": "pick", "type": "object", "properties": {"size": {"enum": ["big", "small"]}}, "required": ["size"], "additionalProperties": False},
                                                       method="json_schema", strict=True).invoke("How big is it?")
    check(got["size"] in ("big", "small"), got)


asked = []


@tool
def get_weather(city: typing.Literal["Paris", "Rome"]) -> str:
    """Weather of a city."""
    asked.append(city)
    return f"It is 18 degrees in {city}."


@tool
def get_time(zone: typing.Literal["CET", "UTC"]) -> str:
    """Time in a zone."""
    return f"Noon in {zone}."


class Forced(AgentMiddleware):
    """The model is too small to choose: the first step must call the named tool (or any), the step after its result must not."""

    def __init__(self, choice):
        super().__init__()
        self.choice = choice

    def _forced(self, request):
        return request.override(tool_choice="none" if any(isinstance(m, ToolMessage) for m in request.messages) else self.choice)

    def wrap_model_call(self, request, handler):
        return handler(self._forced(request))

    async def awrap_model_call(self, request, handler):
        return await handler(self._forced(request))


def loop_of(messages, name=None):
    """Question, call, result, answer."""
    check([type(m) for m in messages] == [HumanMessage, AIMessage, ToolMessage, AIMessage], messages)
    call, result, answer = messages[1].tool_calls[0], messages[2], messages[3]
    check(len(messages[1].tool_calls) == 1 and not messages[1].invalid_tool_calls, messages[1])
    check(name in (None, call["name"]) and call["name"] == result.name and call["id"] == result.tool_call_id, call, result)
    check(result.status == "success" and not answer.tool_calls and answer.text.strip(), result, answer)
    return call


def agent():
    question = {"messages": [HumanMessage("What is the weather in Paris?")]}
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        for more in ({}, {"use_responses_api": True}):
            if more and not isinstance(choice, str):
                continue
            named = None if isinstance(choice, str) else "get_weather"
            made = create_agent(model(max_tokens=100, model_kwargs={"parallel_tool_calls": False}, **more), [get_weather, get_time], system_prompt="You are helpful.", middleware=[Forced(choice)])
            first = loop_of(made.invoke(question)["messages"], named)
            check(loop_of(LOOP.run(made.ainvoke(question))["messages"], named)["args"] == first["args"], "async")
            streamed = list(made.stream(question, stream_mode="values"))[-1]["messages"]
            check(loop_of(streamed, named)["args"] == first["args"], "values")
            # Token by token: the pieces of the call add up to the same call.
            whole = None
            for piece, info in made.stream(question, stream_mode="messages"):
                if info["langgraph_node"] == "model" and getattr(piece, "tool_call_chunks", None):
                    whole = piece if whole is None else whole + piece
            check(whole is not None and whole.tool_calls[0]["args"] == first["args"], whole, first)
    check(asked and set(asked) <= {"Paris", "Rome"}, asked)


for test in (chat, structured, agent):
    test()
    print("ok", test.__name__)
