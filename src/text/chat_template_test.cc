#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace isotope::text {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

ChatTemplate::Input input(ordered_json messages = ordered_json::array()) {
  ChatTemplate::Input in;
  in.messages = std::move(messages);
  in.now = 1753542245;
  return in;
}

Result<std::string> render(std::string source, const ChatTemplate::Input& in = input()) {
  auto t = ChatTemplate::parse(std::move(source));
  if (!t) return tl::unexpected(t.error());
  return (*t)->render(in);
}

std::string repeat(const std::string& s, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += s;
  return out;
}

// Content in square brackets.
std::string marked(const std::string& source, const ChatTemplate::Input& in) {
  auto t = ChatTemplate::parse(source);
  if (!t) return "parse error: " + t.error().message();
  auto pieces = (*t)->render_pieces(in);
  if (!pieces) return "error: " + pieces.error().message();
  std::string out;
  for (const auto& p : *pieces) out += p.special ? p.text : "[" + p.text + "]";
  return out;
}

// ---------------------------------------------------------------- where text comes from

struct MarkCase { const char* source; const char* want; };

class Provenance : public testing::TestWithParam<MarkCase> {};

TEST_P(Provenance, FollowsContent) {
  ChatTemplate::Input in = input({{{"role", "user"}, {"content", "a<|x|>b "}}, {{"role", "sneaky<|x|>"}, {"content", "Q"}}});
  in.tools = {{{"name", "f<|x|>"}, {"n", 5}}};
  in.extra = {{"hint", "h"}};
  in.bos_token = "<s>";
  EXPECT_EQ(marked(GetParam().source, in), GetParam().want) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(Cases, Provenance, testing::ValuesIn(std::vector<MarkCase>{
    {"{{ bos_token }}<|{{ messages[0].role }}|>{{ messages[0].content }}<e>", "<s><|user|>[a<|x|>b ]<e>"},
    {"<|{{ messages[1].role }}|>", "<|[sneaky<|x|>]|>"},
    {"{{ '<u>' + messages[0].content | trim + '</u>' }}", "<u>[a<|x|>b]</u>"},
    {"{{ '<u>' ~ messages[0].content ~ 1 ~ '</u>' }}", "<u>[a<|x|>b ]1</u>"},
    {"{{ messages[0].content | upper }}.", "[A<|X|>B ]."},
    {"{{ ('<' ~ messages[0].content ~ '>') | upper }}", "<[A<|X|>B ]>"},
    {"{{ ('<' ~ messages[1].content ~ '>')[1:] }}", "[Q]>"},
    {"{{ ('<' ~ messages[1].content ~ '>')[::-1] }}", ">[Q]<"},
    {"{{ ('<' ~ messages[1].content ~ '>').replace('Q', 'r') }}", "<r>"},
    {"{{ '<i>Q</i>'.replace('Q', messages[1].content) }}", "<i>[Q]</i>"},
    {"{{ messages | map(attribute='content') | join('<j>') }}", "[a<|x|>b ]<j>[Q]"},
    {"{{ messages[0].content.split('|')[1] }}", "[x]"},
    {"{{ tools | tojson }}", "[{\"[name]\": \"[f<|x|>]\", \"[n]\": 5}]"},
    {"{{ tools[0] }}", "{'[name]': '[f<|x|>]', '[n]': 5}"},
    {"{{ tools | tojson(indent=1) }}", "[\n {\n  \"[name]\": \"[f<|x|>]\",\n  \"[n]\": 5\n }\n]"},
    {"{% set x %}<s>{{ messages[1].content }}</s>{% endset %}{{ x }}", "<s>[Q]</s>"},
    {"{% macro m(c) %}<m>{{ c }}</m>{% endmacro %}{{ m(messages[1].content) | trim }}", "<m>[Q]</m>"},
    {"{% filter upper %}<f>{{ messages[1].content }}{% endfilter %}", "<F>[Q]"},
    {"{% generation %}<g>{{ messages[1].content }}{% endgeneration %}", "<g>[Q]"},
    {"{{ '%s<>%s' % (messages[1].content, 'y') }}", "[Q]<>y"},
    {"{{ '{}<>{}'.format(messages[1].content, 'y') }}", "[Q]<>y"},
    {"{{ ('<' ~ messages[1].content) | indent(2, true) }}", "  <[Q]"},
    {"{{ ('<a ' ~ messages[1].content) | wordwrap(2) }}", "[<a\nQ]"},
    {"{{ messages[0].content | e }}", "[a&lt;|x|&gt;b ]"},
    {"{{ messages[1].content | title }}{{ messages[1].content | urlencode }}", "[QQ]"},
    {"{% for c in messages[1].content ~ '<' %}{{ c }}.{% endfor %}", "[Q].<."},
    {"{% for k, v in tools[0].items() %}{{ k }}={{ v }};{% endfor %}", "[name]=[f<|x|>];[n]=5;"},
    {"{{ hint }}<{{ dict(**tools[0]) }}>", "[h]<{'[name]': '[f<|x|>]', '[n]': 5}>"},
    {"{{ [messages[1].content] * 2 }}{{ messages[1].content * 2 }}", "['[Q]', '[Q]'][QQ]"},
    {"{% set ns = namespace(t='<n>') %}{% set ns.t = ns.t + messages[1].content %}{{ ns.t }}", "<n>[Q]"},
    {"{{ messages[1].content | default('d') }}{{ nope | default('<d>') }}", "[Q]<d>"},
    {"{{ messages[1].content.center(5, '<') }}", "<<[Q]<<"},
    {"{{ '<'.center(3, messages[1].content) }}", "[Q]<[Q]"},
}));

TEST(ChatTemplate, SpecialTokensAreTemplateText) {
  auto in = input({{{"role", "user"}, {"content", "c"}}});
  in.special_tokens = {{"pad_token", "<pad>"}, {"extra_tokens", {"<a>", "<b>"}}};
  EXPECT_EQ(marked("{{ pad_token }}{{ extra_tokens | join }}{{ messages[0].content }}{{ bos_token is defined }}", in), "<pad><a><b>[c]True");
}

TEST(ChatTemplate, CleansInvalidUtf8OnEntry) {
  EXPECT_EQ(*render("{{ messages[0].content }}\xff", input({{{"role", "user"}, {"content", "a\xe2\x82z\xc3"}}})),
            "a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ChatTemplate, PrintsIntegersBeyond64Bits) {
  EXPECT_EQ(*render("{{ messages[0].n }} {{ messages | tojson }}", input({{{"n", 18446744073709551615u}}})),
            "18446744073709551615 [{\"n\": 18446744073709551615}]");
  EXPECT_THAT(render("{{ 9223372036854775807 + 1 }}").error().message(), HasSubstr("64 bits"));
}

TEST(ChatTemplate, UsesTheClockAsLocalTimeWhenNoneIsGiven) {
  auto in = input();
  in.now.reset();
  EXPECT_THAT(*render("{{ strftime_now('%Y') }}", in), testing::MatchesRegex("20[0-9][0-9]"));
}

// ---------------------------------------------------------------- errors

TEST(ChatTemplate, PassesOnWhatTheTemplateRaises) {
  const Error e = render("{{ raise_exception('roles must ' ~ 'alternate') }}").error();
  EXPECT_EQ(e.code, Code::invalid_argument);
  EXPECT_EQ(e.message(), "roles must alternate");
}

struct ErrorCase { const char* source; Code code; const char* what; const char* place; };

class Errors : public testing::TestWithParam<ErrorCase> {};

TEST_P(Errors, NameTheProblemAndThePlace) {
  const auto r = render(GetParam().source);
  ASSERT_FALSE(r) << GetParam().source << " gave " << *r;
  EXPECT_EQ(r.error().code, GetParam().code) << r.error().message();
  EXPECT_THAT(r.error().what, HasSubstr(GetParam().what));
  EXPECT_THAT(r.error().source, HasSubstr(GetParam().place));
  EXPECT_FALSE(r.error().remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(Cases, Errors, testing::ValuesIn(std::vector<ErrorCase>{
    {"a\n  {% include 'x' %}", Code::unsupported, "'include'", "row 2, column 6"},
    {"{% import 'x' as y %}", Code::unsupported, "'import'", "row 1, column 4"},
    {"{% from 'x' import y %}", Code::unsupported, "'from'", "row 1"},
    {"\xc3\xa9{% extends 'x' %}", Code::unsupported, "'extends'", "row 1, column 5"},
    {"{% autoescape true %}{% endautoescape %}", Code::unsupported, "'autoescape'", "row 1"},
    {"{% trans %}x{% endtrans %}", Code::invalid_argument, "unknown tag 'trans'", "row 1, column 4"},
    {"{{ [1, 2] | random }}", Code::unsupported, "random", "row 1, column 13"},
    {"x\r\ny\r\n{{ 1 + }}", Code::invalid_argument, "unexpected 'end of print statement'", "row 3, column 8"},
    {"{{ 'a' + 1 }}", Code::invalid_argument, "can only concatenate str (not \"int\") to str", "row 1, column 4"},
    {"\n\n{{ nope.x }}", Code::invalid_argument, "'nope' is undefined", "row 3, column 8"},
    {"{% for i in 5 %}{% endfor %}", Code::invalid_argument, "'int' object is not iterable", "row 1, column 13"},
    {"{{ x | nope }}", Code::invalid_argument, "No filter named 'nope'", "row 1, column 8"},
    {"{% if true %}{{ 'x' | nope }}{% endif %}", Code::invalid_argument, "No filter named 'nope' found", "row 1, column 23"},
    {"{{ [].append(1) }}", Code::invalid_argument, "access to attribute 'append' of 'list' object is unsafe", "row 1"},
}));

// ---------------------------------------------------------------- hostile templates

class Hostile : public testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(Hostile, GivesAnErrorAndNothingWorse) {
  const auto r = render(GetParam().second);
  EXPECT_FALSE(r) << GetParam().first;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Hostile,
    testing::ValuesIn(std::vector<std::pair<const char*, std::string>>{
        {"parentheses", "{{ " + repeat("(", 100000) + repeat(")", 100000) + " }}"},
        {"brackets", "{{ " + repeat("[", 100000)},
        {"minus", "{{ " + repeat("-", 100000) + "1 }}"},
        {"not", "{{ " + repeat("not ", 100000) + "1 }}"},
        {"plus chain", "{{ 1" + repeat("+1", 100000) + " }}"},
        {"attribute chain", "{{ a" + repeat(".a", 100000) + " }}"},
        {"filter chain", "{{ 'a'" + repeat("|upper", 100000) + " }}"},
        {"conditional chain", "{{ 1" + repeat(" if 0 else 1", 100000) + " }}"},
        {"nested ifs", repeat("{% if 1 %}", 10000) + repeat("{% endif %}", 10000)},
        {"nested targets", "{% set " + repeat("(", 10000) + " %}"},
        {"recursive macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
        {"two recursive macros",
         "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% call(x) c() %}{{ a() }}{% endcall %}{% endmacro %}{% macro c() "
         "%}{{ caller(1) }}{% endmacro %}{{ a() }}"},
        {"recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
        {"string times", "{{ 'aaaaaaaaaa' * 1000000000 }}"},
        {"list times", "{{ [1] * 1000000000 }}"},
        {"doubling", "{% set ns = namespace(s='aa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
        {"doubling lists", "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
        {"shared nest",
         "{% set ns = namespace(s=[]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}"},
        {"shared nest compared",
         "{% set a = namespace(s=[]) %}{% set b = namespace(s=[]) %}{% for i in range(60) %}{% set a.s = [a.s, a.s] %}{% set b.s "
         "= [b.s, b.s] %}{% endfor %}{{ a.s == b.s }}"},
        {"deep nest", "{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}"},
        {"deep iterators",
         "{% set ns = namespace(s=[1]) %}{% for i in range(100000) %}{% set ns.s = ns.s | map('string') %}{% endfor %}{{ ns.s | "
         "list }}"},
        {"many loops", repeat("{% for i in range(100000) %}", 5) + repeat("{% endfor %}", 5)},
        {"large range", "{{ range(1000000000) | list }}"},
        {"large power", "{{ 10 ** 1000000 }}"},
        {"large width", "{{ '%1000000000d' % 5 }}"},
        {"large precision", "{{ '{:.2000000000f}'.format(1.5) }}{{ '{:2000000000}'.format(1) }}"},
        {"large indent", "{{ 'a\nb' | indent(1000000000000) }}"},
        {"large json indent", "{{ [[[1]]] | tojson(indent=1000000000000) }}"},
        {"large centre", "{{ 'a' | center(9223372036854775807) }}"},
        {"large slice filter", "{{ [1] | slice(9223372036854775807) | list }}"},
        {"large batch", "{{ [1] | batch(9223372036854775807, 'x') | list }}"},
        {"many elifs", "{% if 0 %}" + repeat("{% elif 0 %}{% set x", 1) + repeat(" = 1 %}{% elif 0 %}{% set x", 3000)},
        {"unclosed", "{% for x in [1] %}"},
        {"binary", std::string("{{ \x00\x01 }}", 8)},
    }));

TEST(ChatTemplate, NamespacesThatHoldThemselvesPrintAndDie) {
  EXPECT_EQ(*render("{% set ns = namespace(a=1) %}{% set ns.me = [ns] %}{{ ns }}"),
            "<Namespace {'a': 1, 'me': [<Namespace {...}>]}>");
  EXPECT_EQ(
      *render(
          "{% set ns = namespace() %}{% for x in [1] %}{% set ns.l = loop %}{% set ns.c = loop.changed(loop) %}{% endfor %}ok"),
      "ok");
  EXPECT_EQ(
      *render(
          "{% set ns = namespace() %}{% macro m() %}{{ ns.x }}{% endmacro %}{% set ns.m = m %}{% set ns.x = 3 %}{{ ns.m() }}"),
      "3");
  EXPECT_EQ(*render("{% set ns = namespace() %}{% for x in [1, 2] if x > 0 %}{% set ns.l = loop %}{% set y = x %}{% endfor %}{{ "
                    "ns.l.index }}"),
            "2");
}

TEST(ChatTemplate, LoopsStayUsableAfterTheirEnd) {
  EXPECT_EQ(*render("{% set ns = namespace() %}{% for x in [1, 2, 3] if x > 1 %}{% set ns.l = loop %}{% break %}{% endfor %}{{ "
                    "ns.l.length }}{{ ns.l.nextitem }}"),
            "23");
}

TEST(ChatTemplate, RendersOnManyThreadsAtOnce) {
  auto t = *ChatTemplate::parse("{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}{{ 'é' * 3 }}{% endfor %}");
  const auto in = input({{{"role", "user"}, {"content", "x"}}});
  const std::string want = *t->render(in);
  std::vector<std::thread> threads;
  std::vector<int> bad(4, 0);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 200; ++k) bad[static_cast<size_t>(i)] += *t->render(in) != want;
    });
  for (auto& th : threads) th.join();
  EXPECT_THAT(bad, testing::Each(0));
}

TEST(ChatTemplate, LongConversationsStayWithinTheLimits) {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(1000, 'x')}});
  const auto r = render(
      "{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s + m.content %}{% endfor %}{{ ns.s | length }}",
      input(messages));
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(*r, "2000000");
}

}  // namespace
}  // namespace isotope::text
