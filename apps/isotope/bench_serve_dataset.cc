#include "bench_serve_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace isotope::app {
namespace {

using serve::Json;

constexpr uint64_t kLengths = 0x4c454e47, kArrivals = 0x41525256;  // names of streams, apart from those of the prompts
constexpr int64_t kHashBlock = 512;        // tokens that one hash of a Mooncake trace stands for
constexpr int64_t kMostTokens = 1 << 24;
constexpr size_t kBytesAToken = 4;         // of English text in today's vocabularies

int64_t varied(int64_t length, double ratio, RandomStream& random) {
  const double low = double(length) * (1 - ratio), high = double(length) * (1 + ratio);
  return std::max<int64_t>(1, int64_t(std::llround(low + (high - low) * random.uniform())));
}

Result<std::vector<BenchRequest>> drawn(const DatasetPlan& d) {
  std::vector<BenchRequest> out;
  if (d.range_ratio == 0) {
    ISO_TRY(auto prompts, make_prompts(d.prompts));
    for (Json& p : prompts) out.push_back({std::move(p), d.prompts.prefix + d.prompts.input, d.output});
    return out;
  }
  for (int64_t i = 0; i < d.prompts.count; ++i) {
    RandomStream random(d.prompts.seed ^ kLengths, uint64_t(i));
    PromptPlan longest = d.prompts;
    longest.input = varied(d.prompts.input, d.range_ratio, random);
    longest.count = 1;
    longest.first = d.prompts.first + i;
    ISO_TRY(auto prompt, make_prompts(longest));
    out.push_back({std::move(prompt[0]), longest.prefix + longest.input, varied(d.output, d.range_ratio, random)});
  }
  return out;
}

Result<std::string> text_of(const std::string& path) {
  if (path.empty()) return fail(Code::invalid_argument, "this dataset is read from a file, and none is named", "--dataset-path", "name one");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!(in && text << in.rdbuf())) return fail(Code::invalid_argument, "cannot read '" + path + "', or it is empty", "--dataset-path", "name a file that can be read");
  return text.str();
}

std::string text_field(const Json& object, const char* name) {
  const auto it = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// [{"conversations": [{"from": "human", "value": …}, {"from": "gpt", "value": …}, …]}, …]: the first question, as long an answer as the file has.
Result<std::vector<BenchRequest>> conversations(const DatasetPlan& d) {
  ISO_TRY(const std::string text, text_of(d.path));
  const auto json = serve::parse_json(text);
  if (!json || !json->is_array()) return fail(Code::invalid_argument, "'" + d.path + "' is no JSON array", "--dataset-path", "give a file of ShareGPT's form, or --dataset-name jsonl");
  std::vector<BenchRequest> out;
  for (const Json& row : *json) {
    const auto turns = row.is_object() ? row.find("conversations") : row.end();
    if (!row.is_object() || turns == row.end() || !turns->is_array() || turns->size() < 2) continue;
    const std::string question = text_field((*turns)[0], "value"), answer = text_field((*turns)[1], "value");
    if (question.empty() || answer.empty()) continue;
    const auto length = int64_t(std::max<size_t>(4, answer.size() / kBytesAToken));
    out.push_back({question, 0, d.output_given ? d.output : length});
  }
  if (out.empty()) return fail(Code::invalid_argument, "'" + d.path + "' has no conversation with a question and an answer", "--dataset-path", "give a file of ShareGPT's form");
  return out;
}

struct Line {
  const Json& json;
  std::string where;   ///< file:line

  Result<int64_t> count(std::initializer_list<const char*> names, int64_t otherwise) const {
    for (const char* name : names) {
      const auto it = json.find(name);
      if (it == json.end() || it->is_null()) continue;
      if (!it->is_number() || it->get<double>() < 1 || it->get<double>() > double(kMostTokens))
        return fail(Code::invalid_argument, fmt::format("{}: '{}' is {}, no count of tokens", where, name, serve::shown(*it)), "--dataset-path", "give a whole number from 1");
      return it->get<int64_t>();
    }
    return otherwise;
  }
};

/// The tokens that a line of Mooncake's traces stands for: equal hashes are equal blocks, so that what they share can be shared.
Result<Json> traced_prompt(const DatasetPlan& d, const Line& line, int64_t number, int64_t tokens) {
  const auto hashes = line.json.find("hash_ids");
  PromptPlan block = d.prompts;
  block.count = 1, block.prefix = 0, block.text = false;
  std::vector<int32_t> ids;
  if (hashes != line.json.end() && hashes->is_array()) {
    for (const Json& hash : *hashes) {
      if (!hash.is_number_integer()) return fail(Code::invalid_argument, line.where + ": 'hash_ids' holds something that is no integer", "--dataset-path", "give integers");
      block.first = hash.get<int64_t>(), block.input = kHashBlock;
      ISO_TRY(const auto drawn_block, make_prompts(block));
      for (const Json& id : drawn_block[0]) ids.push_back(id.get<int32_t>());
      if (int64_t(ids.size()) >= tokens) break;
    }
  }
  if (int64_t(ids.size()) < tokens) {   // without hashes, or with too few: tokens of its own
    block.seed ^= kLengths, block.first = number, block.input = tokens - int64_t(ids.size());
    ISO_TRY(const auto rest, make_prompts(block));
    for (const Json& id : rest[0]) ids.push_back(id.get<int32_t>());
  }
  ids.resize(size_t(tokens));
  return Json(ids);
}

Result<BenchRequest> read_line(const DatasetPlan& d, const Line& line, int64_t number) {
  BenchRequest r;
  ISO_TRY(r.output, line.count({"output_tokens", "output_length", "max_tokens", "max_completion_tokens"}, d.output));
  if (d.output_given) r.output = d.output;
  const auto prompt = line.json.find("prompt"), messages = line.json.find("messages"), time = line.json.find("timestamp");
  if (time != line.json.end() && !time->is_null()) {
    if (!time->is_number() || !(time->get<double>() >= 0)) return fail(Code::invalid_argument, line.where + ": 'timestamp' is no time", "--dataset-path", "give milliseconds from 0");
    r.at_s = time->get<double>() / 1e3;
  }
  if (prompt != line.json.end() && (prompt->is_string() || prompt->is_array())) {
    r.prompt = *prompt;
    if (prompt->is_array()) r.input = int64_t(prompt->size());
  } else if (messages != line.json.end() && messages->is_array()) {
    r.prompt = *messages;
  } else {
    ISO_TRY(r.input, line.count({"input_length", "input_tokens"}, 0));
    if (r.input == 0)
      return fail(Code::invalid_argument, line.where + " has neither 'prompt' nor 'messages' nor 'input_length'", "--dataset-path", "give one of them in each line");
    ISO_TRY(r.prompt, traced_prompt(d, line, number, r.input));
  }
  return r;
}

Result<std::vector<BenchRequest>> lines(const DatasetPlan& d) {
  ISO_TRY(const std::string text, text_of(d.path));
  std::istringstream in(text);
  std::vector<BenchRequest> out;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", d.path, number);
    const auto json = serve::parse_json(line);
    if (!json || !json->is_object()) return fail(Code::invalid_argument, where + " is no JSON object", "--dataset-path", "give one object in each line");
    ISO_TRY(auto request, read_line(d, {*json, where}, number));
    out.push_back(std::move(request));
  }
  if (out.empty()) return fail(Code::invalid_argument, "'" + d.path + "' has no line", "--dataset-path", "give one object in each line");
  return out;
}

/// As many as are asked for: the file from its beginning, again and again where it is too short.
std::vector<BenchRequest> as_many(std::vector<BenchRequest> rows, const DatasetPlan& d) {
  const size_t have = rows.size(), want = d.all ? have : size_t(d.prompts.count);
  rows.reserve(want);
  for (size_t i = have; i < want; ++i) {
    rows.push_back(rows[i - have]);
    rows.back().at_s = -1;   // a second round has no times of its own
  }
  rows.resize(want);
  return rows;
}

}  // namespace

Result<std::vector<BenchRequest>> load_requests(const DatasetPlan& d) {
  if (d.kind == "random" || d.kind == "prefix_repetition") return drawn(d);
  std::vector<BenchRequest> rows;
  if (d.kind == "sharegpt") {
    ISO_TRY(rows, conversations(d));
  } else {
    ISO_TRY(rows, lines(d));
  }
  rows = as_many(std::move(rows), d);
  if (std::any_of(rows.begin(), rows.end(), [](const BenchRequest& r) { return r.at_s < 0; })) {
    for (BenchRequest& r : rows) r.at_s = -1;
    return rows;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const BenchRequest& a, const BenchRequest& b) { return a.at_s < b.at_s; });
  const double first = rows.front().at_s;
  for (BenchRequest& r : rows) r.at_s -= first;
  return rows;
}

std::vector<double> arrivals(size_t count, double rate, double burstiness, uint64_t seed) {
  std::vector<double> at;
  RandomStream random(seed ^ kArrivals, 0);
  double now = 0;
  // Marsaglia and Tsang's method; a shape below 1 is drawn one higher and corrected.
  const double shape = burstiness < 1 ? burstiness + 1 : burstiness, d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  const auto gamma = [&] {
    for (;;) {
      const double x = random.normal(), v = std::pow(1 + c * x, 3);
      if (v <= 0 || std::log(random.uniform()) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
      return d * v * (burstiness < 1 ? std::pow(random.uniform(), 1 / burstiness) : 1.0);
    }
  };
  for (size_t i = 0; i < count; ++i) at.push_back(now += gamma());
  for (double& t : at) t *= now > 0 ? double(count) / rate / now : 0;
  return at;
}

}  // namespace isotope::app
