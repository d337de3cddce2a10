#include "history.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <deque>
#include <mutex>

namespace py = pybind11;

namespace torch { // of libtorch_python, whose header wants a JSON library
__attribute__((visibility("default"))) std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
__attribute__((visibility("default"))) void freeDeadCapturedTracebackFrames();
} // namespace torch

namespace neuron {
namespace {

using Frames = std::shared_ptr<torch::CapturedTraceback>;

enum class Action : int8_t { alloc, free, oom };

struct Entry {
  Action action;
  c10::DeviceIndex core;
  uintptr_t address;
  int64_t nbytes, time_us;
  Frames frames;
};

// Never taken while waiting for the GIL, and no Python runs under it.
struct History {
  std::mutex mutex;
  Block* newest = nullptr; // of the living blocks, a list through the blocks themselves
  std::deque<Entry> entries; // a ring
  size_t capacity = 0;
};

History& history() {
  static auto* kept = new History; // tensors outlive static objects at exit
  return *kept;
}

std::atomic<bool> g_tracing{false}, g_frames_of_blocks{false}, g_frames_of_entries{false};

int64_t unix_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Frames frames_here(bool wanted) {
  if (!wanted || !Py_IsInitialized())
    return nullptr;
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/false, /*cpp=*/false);
}

void append(History& all, Entry entry) {
  if (all.capacity == 0)
    return;
  if (all.entries.size() >= all.capacity)
    all.entries.pop_front();
  all.entries.push_back(std::move(entry));
}

py::list symbolized(std::vector<torch::CapturedTraceback*>& traces) {
  py::list out;
  for (py::object& frames : torch::py_symbolize(traces))
    out.append(std::move(frames));
  return out;
}

} // namespace

void remember(Block& block) {
  const bool tracing = g_tracing.load(std::memory_order_relaxed);
  const bool of_block = g_frames_of_blocks.load(std::memory_order_relaxed);
  const bool of_entry = tracing && g_frames_of_entries.load(std::memory_order_relaxed);
  Frames frames = frames_here(of_block || of_entry);
  History& all = history();
  std::lock_guard<std::mutex> guard(all.mutex);
  block.frames = of_block ? frames : nullptr;
  block.older = all.newest;
  if (all.newest)
    all.newest->newer = &block;
  all.newest = &block;
  if (tracing)
    append(all, {Action::alloc, block.core, reinterpret_cast<uintptr_t>(block.data), int64_t(block.nbytes), unix_us(), of_entry ? frames : nullptr});
}

void forget(Block& block) {
  const bool tracing = g_tracing.load(std::memory_order_relaxed);
  Frames frames = frames_here(tracing && g_frames_of_entries.load(std::memory_order_relaxed));
  History& all = history();
  std::lock_guard<std::mutex> guard(all.mutex);
  (block.newer ? block.newer->older : all.newest) = block.older;
  if (block.older)
    block.older->newer = block.newer;
  if (tracing)
    append(all, {Action::free, block.core, reinterpret_cast<uintptr_t>(block.data), int64_t(block.nbytes), unix_us(), std::move(frames)});
}

void remember_oom(c10::DeviceIndex core, int64_t nbytes) {
  if (!g_tracing.load(std::memory_order_relaxed))
    return;
  Frames frames = frames_here(g_frames_of_entries.load(std::memory_order_relaxed));
  const auto room = uintptr_t(std::max<int64_t>(hbm_limit() - core_stats(core).current, 0));
  History& all = history();
  std::lock_guard<std::mutex> guard(all.mutex);
  append(all, {Action::oom, core, room, nbytes, unix_us(), std::move(frames)});
}

// `capacity`: entries kept; 0 keeps no trace.
void record_history(size_t capacity, bool frames_of_blocks, bool frames_of_entries, bool clear) {
  std::deque<Entry> dropped; // their frames go outside the lock
  History& all = history();
  {
    std::lock_guard<std::mutex> guard(all.mutex);
    all.capacity = capacity;
    if (clear)
      dropped.swap(all.entries);
    while (capacity && all.entries.size() > capacity)
      all.entries.pop_front();
  }
  g_frames_of_blocks = frames_of_blocks;
  g_frames_of_entries = frames_of_entries;
  g_tracing = capacity > 0;
}

// (blocks, entries, frames): a block is (core, address, bytes, frames), an entry (action, core, address, bytes, time in
// microseconds since 1970, frames); `frames` there are indices into the third list, -1 for none. Oldest first.
py::tuple history_snapshot() {
  struct Living {
    c10::DeviceIndex core;
    uintptr_t address;
    int64_t nbytes;
    Frames frames;
  };
  std::vector<Living> living;
  std::vector<Entry> entries;
  {
    History& all = history();
    std::lock_guard<std::mutex> guard(all.mutex);
    for (Block* block = all.newest; block; block = block->older)
      living.push_back({block->core, reinterpret_cast<uintptr_t>(block->data), int64_t(block->nbytes),
                        std::static_pointer_cast<torch::CapturedTraceback>(block->frames)});
    entries.assign(all.entries.begin(), all.entries.end());
  }
  std::vector<torch::CapturedTraceback*> traces;
  auto index_of = [&](const Frames& frames) {
    if (!frames)
      return -1;
    traces.push_back(frames.get());
    return int(traces.size()) - 1;
  };
  constexpr const char* kNames[] = {"alloc", "free", "oom"};
  py::list blocks, events;
  for (auto it = living.rbegin(); it != living.rend(); ++it)
    blocks.append(py::make_tuple(int(it->core), it->address, it->nbytes, index_of(it->frames)));
  for (const Entry& e : entries)
    events.append(py::make_tuple(kNames[int(e.action)], int(e.core), e.address, e.nbytes, e.time_us, index_of(e.frames)));
  py::tuple out = py::make_tuple(blocks, events, symbolized(traces));
  torch::freeDeadCapturedTracebackFrames();
  return out;
}

} // namespace neuron
