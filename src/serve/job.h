// One API call in flight: its child requests (prompts × choices), their events and their texts.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/heap_keeper.h"
#include "isotope/engine.h"
#include "serve/choice.h"
#include "serve/mailbox.h"
#include "text/grammar/grammar.h"

namespace isotope::serve {

struct JobSpec {
  std::vector<Prompt> prompts;
  SamplingParams sampling;           ///< seed set; max_tokens comes from each prompt
  OutputOptions output;
  std::shared_ptr<const text::Grammar> grammar;   ///< what every choice must be, or null
  int n = 1;                         ///< choices returned for each prompt
  int best_of = 1;                   ///< candidates made for each prompt; the n with the highest cumulative log-probability are returned
  int priority = 0;
  std::string share_key;             ///< whose fair share it takes: the API key, else the field `user`
  int64_t deadline_ms = 0;           ///< refused if it has not started by then; 0 = the engine's own limit
  std::string cache_salt;
  double pin_s = 0;                  ///< for how long prompts' pin_tokens are kept
  std::string label;                 ///< the call's id, by which the engine's records are found
  int rank = -1;                     ///< data-parallel rank that the client names
  std::string session;               ///< conversation, for session affinity
  bool session_has_parent = false;
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, truncated_tokens = 0;
};

/// Used by one thread at a time; only the mailbox is touched by the engine's. Destruction cancels what still runs.
class Job {
 public:
  /// `spec` must outlive the job.
  Job(Engine&, const text::Tokenizer&, const JobSpec& spec, size_t mailbox_bytes);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Hands all children to the engine. On failure none is left running. `next_id` gives unique request ids.
  Result<void> start(std::atomic<uint64_t>& next_id);
  void set_wake(std::function<void()> wake) { mailbox_->set_wake(std::move(wake)); }
  /// Takes in what the engine has sent.
  void poll();
  bool finished() const { return open_ == 0 || error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  bool overflowed() const { return mailbox_->overflowed(); }
  /// Ends the call with an error; what has been generated stays readable.
  void fail_with(Error);

  const JobSpec& spec() const { return spec_; }
  /// prompt-major: child = prompt * best_of + candidate.
  Choice& choice(int child) { return *choices_[size_t(child)]; }
  size_t choice_count() const { return choices_.size(); }
  /// Children in the order in which they are returned (n for each prompt).
  std::vector<int> returned() const;
  int prompt_of(int child) const { return child / spec_.best_of; }
  std::optional<RequestStats> stats(int child) const;
  Usage usage() const;

 private:
  void finish_children(FinishReason);

  Engine& engine_;
  const JobSpec& spec_;
  std::shared_ptr<Mailbox> mailbox_;  // shared with the sinks: the engine may still hold one after the client has left
  std::vector<std::unique_ptr<Choice>> choices_;
  std::vector<uint64_t> ids_;
  std::vector<char> engine_done_;          ///< by child: its final event came, or it was told to end
  int open_ = 0;                      ///< choices without a finish reason
  std::optional<Error> error_;
  base::Tracked tracked_{"call", "serve"};
};

}  // namespace isotope::serve
