#include "repl.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "base/input_file.h"
#include "base/output_file.h"
#include "line_editor.h"
#include "output.h"

namespace isotope::app {
namespace {

using serve::Json;

class Repl {
 public:
  Repl(serve::Frontend& front, ReplOptions options, Interrupt& interrupt)
      : front_(front), options_(std::move(options)), interrupt_(interrupt), editor_(interrupt, options_.history_file) {
    reset("");
  }
  int run();

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    void (Repl::*run)(const std::string&);
  };
  static const Command kCommands[];

  void say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }
  void help(const std::string&);
  void reset(const std::string&);
  void system(const std::string&);
  void save(const std::string&);
  void load(const std::string&);
  void temperature(const std::string&);
  void seed(const std::string&);
  void leave(const std::string&) { left_ = true; }
  void command(const std::string& line);
  void turn(const std::string& line);
  std::optional<std::string> next_input();

  serve::Frontend& front_;
  ReplOptions options_;
  Interrupt& interrupt_;
  LineEditor editor_;
  Json messages_ = Json::array();
  bool left_ = false;
};

const Repl::Command Repl::kCommands[] = {
    {"/help", "", "this list", &Repl::help},
    {"/reset", "", "forget the conversation", &Repl::reset},
    {"/system", "TEXT", "set the system message and forget the conversation; without TEXT: none", &Repl::system},
    {"/save", "FILE", "write the conversation as JSON", &Repl::save},
    {"/load", "FILE", "go on with a saved conversation", &Repl::load},
    {"/temp", "NUMBER", "sampling temperature; 0 takes the likeliest token", &Repl::temperature},
    {"/seed", "NUMBER", "make answers repeatable; without NUMBER: a new seed each time", &Repl::seed},
    {"/exit", "", "leave (at the prompt also Ctrl-D, or Ctrl-C twice)", &Repl::leave},
};

void Repl::help(const std::string&) {
  for (const Command& c : kCommands) say(fmt::format("  {:<16} {}", std::string(c.name) + " " + c.argument, c.help));
  say("  A line that ends with \\ goes on; pasted lines stay together. Ctrl-C stops an answer.");
}

void Repl::reset(const std::string&) {
  messages_ = Json::array();
  if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
}

void Repl::system(const std::string& text) {
  options_.system = text;
  reset("");
}

void Repl::save(const std::string& file) {
  const auto written = base::write_output(file, messages_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", "/save");
  say(written ? fmt::format("{} messages written to {}", messages_.size(), file) : written.error().message());
}

void Repl::load(const std::string& file) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  const auto text = base::read_input(file, kMostBytes, "/load");
  if (!text) return say(text.error().message());
  auto json = serve::parse_json(*text);
  auto checked = json ? serve::template_messages(*json, true) : Result<Json>(tl::unexpected(json.error()));
  if (!checked) return say(fmt::format("{} holds no conversation: {}", file, checked.error().message()));
  messages_ = *std::move(json);
  say(fmt::format("{} messages read from {}", messages_.size(), file));
}

void Repl::temperature(const std::string& text) {
  auto number = serve::parse_json(text);
  if (!number || !number->is_number() || number->get<double>() < 0) return say("'" + text + "' is no temperature; try /temp 0.7");
  options_.sampling["temperature"] = *number;
}

void Repl::seed(const std::string& text) {
  options_.sampling.erase("seed");
  if (text.empty()) return;
  auto number = serve::parse_json(text);
  if (!number || !number->is_number_integer()) return say("'" + text + "' is no seed; try /seed 7");
  options_.sampling["seed"] = *number;
}

void Repl::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  for (const Command& c : kCommands) {
    if (name == c.name || (name == "/quit" && std::string_view(c.name) == "/exit")) return (this->*c.run)(argument);
  }
  say("unknown command " + name + "; /help lists them");
}

void Repl::turn(const std::string& line) {
  messages_.push_back({{"role", "user"}, {"content", line}});
  Json body = options_.sampling;
  body["messages"] = messages_;
  bool first = true;
  const auto on_text = [&](const std::string& text) {
    // Models like to begin with a line end.
    std::string shown = printable(text);
    if (first) shown.erase(0, shown.find_first_not_of(" \n"));
    first = first && shown.empty();
    return out_now(shown);
  };
  auto answer = ask(front_, std::move(body), interrupt_, {.conversation = messages_.size() > 1, .on_text = on_text});
  left_ = !out_now("\n");  // nobody could read the next answer either
  if (!answer) {
    messages_.erase(messages_.size() - 1);
    return say(answer.error().message());
  }
  if (answer->interrupted) say("(stopped)");
  messages_.push_back({{"role", "assistant"}, {"content", answer->text}});
  if (options_.verbose) {
    const RequestStats& s = answer->stats;
    say(fmt::format("[{} prompt tokens, {} cached; {} tokens, {:.1f} per second; seed {}]", s.prompt_tokens, s.cached_tokens, answer->usage.completion_tokens,
                    s.decode_s > 0 ? double(s.output_tokens) / s.decode_s : 0, s.seed));
  }
}

// A whole input: lines that end with a backslash are joined. Nothing when the user leaves.
std::optional<std::string> Repl::next_input() {
  std::string input;
  bool once = false;
  for (;;) {
    const LineEditor::Line line = editor_.read(input.empty() ? "> " : "… ");
    if (line.end == LineEditor::End::closed) {
      say("");
      return std::nullopt;
    }
    if (line.end == LineEditor::End::interrupted) {
      say("");
      if (once) return std::nullopt;
      say("(Ctrl-C again, Ctrl-D or /exit leaves)");
      once = true;
      input.clear();
      continue;
    }
    input += line.text;
    if (!input.ends_with('\\')) return input;
    input.back() = '\n';
  }
}

int Repl::run() {
  say("Chat with " + front_.engine().info().name + ". /help lists commands.");
  while (!left_) {
    const auto input = next_input();
    if (!input) break;
    if (input->find_first_not_of(" \t\n") == std::string::npos) continue;
    if (input->starts_with("/")) {
      command(*input);
    } else {
      turn(*input);
    }
  }
  return 0;
}

}  // namespace

int repl(serve::Frontend& front, ReplOptions options, Interrupt& interrupt) { return Repl(front, std::move(options), interrupt).run(); }

}  // namespace isotope::app
