// All settings, resolved once at start-up from an injected map; the same inputs give the same levers.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "levers/catalogue.h"
#include "levers/groups.h"

namespace isotope::levers {

enum class Source { default_value, tuned, config_file, environment, command_line };
std::string_view source_name(Source);

/// Where values may come from. Precedence: command line > environment > config file > what `isotope tune` stored > default.
struct Inputs {
  std::map<std::string, std::string> environment;        ///< the whole environment, or a literal in tests
  std::map<std::string, std::string> tuned;              ///< NAME -> text, of this machine
  std::string tuned_path;                                ///< for messages
  std::map<std::string, std::string> config_file;        ///< NAME -> text, see config_file.h
  std::string config_path;                               ///< for messages
  std::vector<std::pair<std::string, std::string>> set;  ///< --set NAME=VALUE, in order; the last one wins
  bool strict = false;                                   ///< --strict-levers: a warning stops the start
};

struct Setting {
  const Row* row = nullptr;
  std::string value;      ///< canonical text: "true", "16", "a,b"; empty = unset
  Source source = Source::default_value;
};

/// What a lever does in this build: "active", "equivalent", "inactive" or "planned", and why.
struct Disposition {
  std::string_view word;
  std::string_view reason;
};
Disposition disposition(const Row&);

class Levers {
 public:
  static Result<Levers> resolve(const Inputs&);
  static Levers defaults();

  std::span<const Setting> settings() const { return settings_; }
  const Setting* find(std::string_view name) const;  ///< by name or alias
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool changed(const Setting&) const;                ///< differs from the default

  // The typed groups. Handing one out marks its rows as consumed.
  const Loading& loading() const;
  const Cpu& cpu() const;
  const Fusion& fusion() const;
  const Program& program() const;
  const PrefixCache& prefix_cache() const;
  const KvEvents& kv_events() const;
  const PrefillDelayer& prefill_delayer() const;
  const Capacity& capacity() const;
  const DataParallel& data_parallel() const;
  const Housekeeping& housekeeping() const;
  const Text& text() const;
  const Engram& engram() const;
  const Sparse& sparse() const;
  /// Rows whose values some component has taken.
  std::vector<std::string_view> consumed() const;

  /// Hash of every setting that may change numbers and is not at its default; part of system_fingerprint.
  uint64_t numeric_hash() const;

 private:
  Levers();
  void bind();
  struct Groups;
  std::vector<Setting> settings_;
  std::vector<std::string> warnings_;
  std::shared_ptr<Groups> groups_;
};

}  // namespace isotope::levers
