#include "models/engram_reader.h"

#include <chrono>

namespace isotope::models {
namespace {

void read(EngramReader::Job& job) {
  const auto start = std::chrono::steady_clock::now();
  const ops::TableGuard guard(*job.table);
  for (size_t i = 0; i < job.rows.size(); ++i) ops::read_table_row(*job.table, job.rows[i], job.out + int64_t(i) * job.table->dim);
  job.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

EngramReader::EngramReader() : thread_([this] { loop(); }) {}

EngramReader::~EngramReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void EngramReader::start(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&job);
  }
  wanted_.notify_one();
}

void EngramReader::wait(Job& job) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return job.done; });
}

void EngramReader::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Job* const job = queue_.front();
    queue_.pop_front();
    lock.unlock();
    read(*job);
    lock.lock();
    job->done = true;
    finished_.notify_all();
  }
}

}  // namespace isotope::models
