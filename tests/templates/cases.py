"""Messages, tools and keyword arguments the templates are rendered with."""
import random

SPECIAL = {"bos_token": "<BOS>", "eos_token": "<EOS>", "unk_token": "<UNK>", "pad_token": "<PAD>"}

KWARGS = [{}, {"enable_thinking": False}, {"enable_thinking": True, "reasoning_effort": "high", "date_string": "1 Jan 2025", "tools_in_user_message": False,
          "documents": [{"title": "t", "text": "x"}], "add_vision_id": True, "controls": {"length": "short"}}]

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Get the weather for a city", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "City name, e.g. \"Zürich\""}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}, "days": {"type": "integer", "default": 3}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "search", "description": "Search <b>docs</b> & 'notes'", "parameters": {"type": "object", "properties": {"q": {"type": "array", "items": {"type": "string"}}, "opts": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "boolean", "nullable": True}}, "required": ["a"]}, "k": {"type": ["string", "null"]}, "v": {"oneOf": [{"type": "string", "description": "text"}, {"type": "number"}], "default": "x"}}, "required": ["q"]}}},
    {"type": "function", "function": {"name": "noargs", "description": "no arguments", "parameters": {"type": "object", "properties": {}}}},
]

CASES = {
    "user": [
        {"role": "user", "content": "Hello!"},
    ],
    "sys_user": [
        {"role": "system", "content": "  Be terse. "},
        {"role": "user", "content": " Hi \n"},
    ],
    "multi": [
        {"role": "system", "content": "You are X."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": " d "},
        {"role": "user", "content": "e"},
    ],
    "ends_assistant": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "answer\n"},
    ],
    "unicode": [
        {"role": "user", "content": "你好 😀 é\u0301 \"quotes\" \\back <tag> & 'x'\t\u2028"},
    ],
    "empty_content": [
        {"role": "user", "content": ""},
    ],
    "think": [
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "<think>\nlong\nthoughts\n</think>\n\nfinal 1"},
        {"role": "user", "content": "q2"},
        {"role": "assistant", "content": "<think>more</think>final 2"},
    ],
    "think_pending": [
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "<think>\na\n</think>\n\nx"},
        {"role": "user", "content": "q2"},
    ],
    "reasoning_field": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "ans", "reasoning_content": "because\n", "thinking": "because"},
    ],
    "tool_flow": [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "weather in Zürich?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "nested": {"a": [1, 2.5, None, True, "x\"y"]}}}}]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"t\": 21.5}"},
        {"role": "assistant", "content": "It is 21.5°C."},
        {"role": "user", "content": "thanks"},
    ],
    "tool_pending": [
        {"role": "user", "content": "w?"},
        {"role": "assistant", "content": "Let me check.", "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Bern"}}}]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "ok"},
    ],
    "two_tools": [
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "aaaaaaaa1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "A"}}}, {"id": "aaaaaaaa2", "type": "function", "function": {"name": "search", "arguments": {"q": ["x", "y"]}}}]},
        {"role": "tool", "tool_call_id": "aaaaaaaa1", "content": "r1"},
        {"role": "tool", "tool_call_id": "aaaaaaaa2", "content": "r2"},
    ],
    "tool_args_string": [
        {"role": "user", "content": "s"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "noargs", "arguments": "{}"}}]},
    ],
    "parts": [
        {"role": "user", "content": [{"type": "text", "text": "look: "}, {"type": "image"}, {"type": "text", "text": " ok"}]},
    ],
    "bad_alternation": [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ],
    "assistant_first": [
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "x"},
    ],
    "developer": [
        {"role": "developer", "content": "dev text"},
        {"role": "user", "content": "x"},
    ],
    "unknown_role": [
        {"role": "user", "content": "a"},
        {"role": "critic", "content": "hm"},
        {"role": "user", "content": "b"},
    ],
    "two_systems": [
        {"role": "system", "content": "one"},
        {"role": "system", "content": "two"},
        {"role": "user", "content": "x"},
    ],
    "tool_content_map": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "noargs", "arguments": {}}}]},
        {"role": "tool", "tool_call_id": "call12345", "content": {"content": 5, "x": [1]}},
        {"role": "assistant", "content": "z"},
    ],
    "long": [m for i in range(6) for m in ({"role": "user", "content": f"u{i}"}, {"role": "assistant", "content": f"a{i}"})] + [{"role": "user", "content": "last"}],
}


PARTS = ["hello", " ", "\n", "\n\n", "é", "😀", "<|im_end|>", "<think>", "</think>", "\"", "'", "\\\\", "{{ x }}", "{% if %}", "<tool_call>", "\t", "你好", "0", "\u2028", "&<>"]


def random_text(rng):
    return "".join(rng.choice(PARTS) for _ in range(rng.randint(0, 8)))


def random_value(rng, depth=0):
    kind = rng.randint(0, 8 if depth < 3 else 5)
    if kind == 0: return rng.randint(-10**9, 10**18)
    if kind == 1: return rng.choice([0.1, 1e20, -2.5, 1e-7, 3.0])
    if kind == 2: return rng.choice([None, True, False])
    if kind <= 5: return random_text(rng)
    if kind == 6: return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {random_text(rng): random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def random_cases(seed):
    """More conversations, for a fresh seed."""
    rng, out = random.Random(seed), {}
    for i in range(20):
        messages = [{"role": "system", "content": random_text(rng)}] if rng.random() < 0.4 else []
        for _ in range(rng.randint(1, 4)):
            messages.append({"role": "user", "content": random_text(rng)})
            if rng.random() < 0.3:
                call = {"id": "call%05d" % rng.randint(0, 99999), "type": "function", "function": {"name": "f", "arguments": {random_text(rng): random_value(rng)}}}
                messages.append({"role": "assistant", "content": random_text(rng), "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": random_text(rng)})
            messages.append({"role": "assistant", "content": random_text(rng)})
        if rng.random() < 0.7: messages.pop()
        out[f"random{i}"] = messages
    return out
