#include "support/fake_engine.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "support/byte_tokenizer.h"

namespace isotope::test {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9E3779B97F4A7C15ull;
  return a ^ (a >> 29);
}

uint64_t hash_of(const Request& r) {
  uint64_t h = mix(r.sampling.seed.value_or(0), uint64_t(r.sampling.choice) + 1);
  if (r.sampling.temperature == 0) h = 7;
  for (const int32_t t : r.prompt) h = mix(h, uint64_t(t));
  return h;
}

// Letters and now and then the bytes of a euro sign, one at a time.
int32_t drawn(uint64_t h, int64_t at) {
  static constexpr unsigned char kEuro[] = {0xE2, 0x82, 0xAC};
  const uint64_t group = mix(h, uint64_t(at / 3));
  if (group % 8 == 0) return kEuro[at % 3];
  const uint64_t x = mix(h, uint64_t(at) + 1000);
  return x % 6 == 0 ? ' ' : x % 17 == 0 ? 260 : int32_t('a' + x % 26);
}

std::vector<int32_t> script_of(const std::vector<int32_t>& prompt) {
  const std::string text = ByteTokenizer().decode(prompt, true);
  const std::string open = "«say:";
  const size_t at = text.rfind(open), end = text.rfind("»");
  if (at == std::string::npos || end == std::string::npos || end < at) return {};
  auto ids = ByteTokenizer().encode(text.substr(at + open.size(), end - at - open.size()), false, false);
  ids.push_back(ByteTokenizer::kEos);
  return ids;
}

bool has(const std::vector<uint32_t>& bits, int64_t token) { return (bits[size_t(token) / 32] >> (token % 32) & 1) != 0; }

TokenLogprob score(const Request& r, int32_t token, int64_t at) {
  return {token, -0.25f - float(mix(uint64_t(token), uint64_t(at) + uint64_t(r.sampling.choice)) % 1000) / 512, 1};
}

std::vector<TokenLogprob> alternatives(const Request& r, int32_t token, int64_t at, int k) {
  std::vector<TokenLogprob> out;
  const TokenLogprob own = score(r, token, at);
  for (int i = 0; i < k; ++i) out.push_back({(token + i) % 262, own.logprob - float(i), i + 1});
  return out;
}

}  // namespace

FakeEngine::FakeEngine(FakeOptions o) : options_(o) {
  info_ = {.name = "fake", .architecture = "fake", .path = "fake.gguf", .file_type = "none", .layers = 1, .hidden = 8, .vocab = o.vocab,
           .context_length = o.context, .max_model_len = o.context, .eos_ids = {ByteTokenizer::kEos}, .fingerprint = "fp_fake"};
  vocab_.eos_id = ByteTokenizer::kEos;
  vocab_.bos_id = ByteTokenizer::kBos;
  vocab_.vocab_size = o.vocab;
  vocab_.chat_template =
      "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  thread_ = std::thread([this] { loop(); });
}

FakeEngine::~FakeEngine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    stalled_ = false;
  }
  change_.notify_all();
  thread_.join();
}

Result<void> FakeEngine::submit(Request r) {
  const std::lock_guard lock(mutex_);
  if (closed_) return fail(Code::unavailable, "the engine is shutting down");
  if (int64_t(running_.size()) >= options_.max_waiting) return fail(Code::resource_exhausted, "64 requests are waiting", {}, "try again later");
  last_ = Request{.id = r.id, .prompt = r.prompt, .sampling = r.sampling, .priority = r.priority, .cache_salt = r.cache_salt, .use_prefix_cache = r.use_prefix_cache};
  stats_[r.id] = {.prompt_tokens = int64_t(r.prompt.size()), .cached_tokens = int64_t(r.prompt.size() / 16 * 16), .seed = r.sampling.seed.value_or(1)};
  auto script = script_of(r.prompt);
  running_.push_back({.request = std::move(r), .script = std::move(script)});
  change_.notify_all();
  return {};
}

void FakeEngine::finish(uint64_t id, FinishReason reason) {
  const std::lock_guard lock(mutex_);
  for (Running& r : running_) {
    if (r.request.id == id) r.asked = reason;
  }
}

std::optional<RequestStats> FakeEngine::stats(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto it = stats_.find(id);
  return it == stats_.end() ? std::nullopt : std::optional(it->second);
}

EngineStats FakeEngine::stats() const {
  const std::lock_guard lock(mutex_);
  return {.running = int64_t(running_.size()), .blocks_total = 100, .blocks_free = 100, .steps = steps_,
          .last_step_age_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - last_step_).count()};
}

void FakeEngine::shutdown(double drain_s) {
  using namespace std::chrono;
  const auto end = steady_clock::now() + duration<double>(drain_s);
  std::unique_lock lock(mutex_);
  closed_ = true;
  change_.wait_until(lock, end, [this] { return running_.empty(); });
  for (Running& r : running_) r.asked = FinishReason::abort;
}

std::optional<PoolingInfo> FakeEngine::pooling() const {
  if (!options_.pools) return {};
  return PoolingInfo{.dimensions = info_.hidden, .max_tokens = options_.context, .labels = options_.labels, .token_types = 2};
}

Result<void> FakeEngine::pool(PoolRequest r) {
  PoolRequest::Vectors out;
  for (const PoolInput& in : r.inputs) {
    std::vector<float> v(size_t(info_.hidden), 0.5f);
    for (const int32_t t : in.tokens) {
      if (t == 13) return r.done(fail(Code::data_loss, "the model's result is not a finite number", "weights", "use others")), Result<void>();
      v[size_t(t) % v.size()] += 1;
    }
    if (r.classify) v = {float(in.second) / float(in.tokens.size())};
    out.push_back(std::move(v));
  }
  r.done(std::move(out));
  return {};
}

void FakeEngine::stall(bool on) {
  {
    const std::lock_guard lock(mutex_);
    stalled_ = on;
  }
  change_.notify_all();
}

Request FakeEngine::last() const {
  const std::lock_guard lock(mutex_);
  return Request{.id = last_.id, .prompt = last_.prompt, .sampling = last_.sampling, .priority = last_.priority, .cache_salt = last_.cache_salt, .use_prefix_cache = last_.use_prefix_cache};
}

void FakeEngine::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    change_.wait(lock, [this] { return stop_ || (!running_.empty() && !stalled_); });
    if (stop_) break;
    ++steps_;
    last_step_ = std::chrono::steady_clock::now();
    for (auto it = running_.begin(); it != running_.end();) {
      step(*it);
      it = it->made < 0 ? running_.erase(it) : std::next(it);
    }
    change_.notify_all();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(options_.step_us));
    lock.lock();
  }
  for (Running& r : running_) deliver(r, {}, FinishReason::abort, -1);
}

// The wanted token if the grammar allows it, else one drawn from those that it allows.
int32_t FakeEngine::masked(Running& r, int32_t wanted) const {
  std::vector<uint32_t> bits(size_t(info_.vocab + 31) / 32);
  if (!r.request.mask->fill(bits) || has(bits, wanted)) return wanted;
  const int64_t from = int64_t(mix(hash_of(r.request), uint64_t(r.made)) % uint64_t(info_.vocab));
  for (int64_t i = 0; i < info_.vocab; ++i) {
    const int64_t token = (from + i) % info_.vocab;
    if (has(bits, token)) return int32_t(token);
  }
  return ByteTokenizer::kEos;
}

void FakeEngine::step(Running& r) {
  const SamplingParams& p = r.request.sampling;
  if (r.asked != FinishReason::none) {
    ++ended_early_;
    return deliver(r, {}, r.asked, -1);
  }
  if (r.made >= p.max_tokens) return deliver(r, {}, FinishReason::length, -1);
  int32_t token = r.script.empty() ? drawn(hash_of(r.request), r.made) : r.script[size_t(std::min<int64_t>(r.made, int64_t(r.script.size()) - 1))];
  for (const auto& [id, bias] : p.logit_bias) {
    if (bias == 100) token = id;
  }
  const bool asked_stop = std::find(p.stop_token_ids.begin(), p.stop_token_ids.end(), token) != p.stop_token_ids.end();
  if (r.request.mask) token = masked(r, token);
  if ((token == ByteTokenizer::kEos && !p.ignore_eos && r.made >= p.min_tokens) || asked_stop) return deliver(r, {}, FinishReason::stop, token);
  if (token == ByteTokenizer::kEos) token = '.';
  const bool complete = r.request.mask && r.request.mask->accept(token) && r.request.mask->finished();
  if (complete) return deliver(r, {token}, FinishReason::stop, -1);
  const bool last = r.made + 1 >= p.max_tokens;
  deliver(r, {token}, last ? FinishReason::length : FinishReason::none, -1);
}

void FakeEngine::deliver(Running& r, std::vector<int32_t> tokens, FinishReason finish, int32_t stop_token) {
  const SamplingParams& p = r.request.sampling;
  std::vector<TokenLogprob> chosen;
  std::vector<std::vector<TokenLogprob>> top, prompt;
  std::vector<int32_t> scored = tokens;
  if (stop_token >= 0 && options_.end_token_logprobs) scored.push_back(stop_token);
  for (const int32_t t : scored) {
    if (p.logprobs < 0) break;
    chosen.push_back(score(r.request, t, r.made));
    top.push_back(alternatives(r.request, t, r.made, p.logprobs));
  }
  if (r.first && p.prompt_logprobs >= 0) {
    for (size_t i = 0; i < r.request.prompt.size(); ++i) {
      if (i == 0) {
        prompt.push_back({});
        continue;
      }
      auto list = alternatives(r.request, r.request.prompt[i], int64_t(i), p.prompt_logprobs);
      list.insert(list.begin(), score(r.request, r.request.prompt[i], int64_t(i)));
      prompt.push_back(std::move(list));
    }
  }
  r.first = false;
  r.made += int64_t(tokens.size());
  RequestStats& s = stats_[r.request.id];
  s.output_tokens = r.made;
  r.request.sink({.id = r.request.id, .tokens = tokens, .logprobs = chosen, .top_logprobs = top, .prompt_logprobs = prompt, .finish = finish, .stop_token = stop_token});
  if (finish != FinishReason::none) r.made = -1;
}

}  // namespace isotope::test
