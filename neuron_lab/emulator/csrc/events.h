// What the device did, for the recorders: op calls, copies and memory, kept per session as rings of raw events plus exact totals.
#pragma once

#include "device.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

namespace neuron {

struct OpInfo;
struct Plan;

// compiled: an executable ran. fallback: the CPU kernel ran. host: a native op whose host part is known (its result's size
// depends on the data). empty: no elements, nothing to compile. decomposed: PyTorch's composite kernel ran, its parts are ops.
enum class Kind : int8_t { compiled, fallback, host, empty, decomposed };

// backward: autograd runs it. optimizer: inside an optimizer's step or zero_grad, but not in the step's closure.
enum class Phase : int8_t { forward, backward, optimizer };

struct Session;

// Where a call came from; what it points to belongs to the session.
struct Frame {
  PyCodeObject* code = nullptr; // of the user's line; none: no line of the user's
  int line = 0;
  const std::string* module = nullptr; // path of the innermost module that was running
  Phase phase = Phase::forward;
};
enum class Look : int8_t { line, all }; // for the line only, or for module and phase too
Frame user_frame(Session& session, Look look); // GIL held

// From _scopes.py; strong references, set once.
struct FrameRules {
  PyObject* is_user_file = nullptr; // (file name) -> bool
  PyObject* name_modules = nullptr; // (the running modules, innermost first) -> [(module, path), ...]
  PyObject* module_call = nullptr; // the code object that every module's call passes
  std::vector<PyObject*> optimizer; // and those that an optimizer's work passes
};
extern FrameRules g_frame_rules;

struct OpEvent {
  const OpInfo* op;
  int64_t start_ns;
  const Plan* plan = nullptr; // also of a call that was not compiled, when planning found out why
  const char* reason = nullptr; // a literal: why the values of this one call went to the CPU
  Kind kind = Kind::compiled;
  int8_t core = 0;
  bool cold = false;
  bool beyond_32_bits = false; // a 64-bit value does not fit 32 bits
  uint64_t thread = 0;
  int64_t end_ns = 0, device_ns = 0, bytes = 0;
  int64_t check_ns = 0; // spent on looking at the values; not a part of the call
  Frame frame = {};
};

struct CopyEvent {
  Direction direction;
  int8_t core;
  int64_t start_ns, end_ns, bytes;
  Frame frame = {};
};

struct OpTotal {
  int64_t calls = 0, cold = 0, total_ns = 0, device_ns = 0, bytes = 0, beyond_32_bits = 0;
};

struct CopyTotal {
  int64_t calls = 0, total_ns = 0, bytes = 0;
};

struct MemoryEvent {
  int8_t core;
  int64_t at_ns, change, used; // bytes; `used` is afterwards
  Frame frame = {}; // of the line that took it, also when it is given back
};

using Line = std::pair<PyCodeObject*, int>; // no code: no line of the user's

struct Held {
  int64_t bytes = 0, blocks = 0;
};
using Holdings = std::map<Line, Held>; // what the session saw taken

struct CoreUse {
  Holdings live;
  int64_t peak = 0, peak_ns = 0;
  std::optional<Holdings> at_peak; // none: what lives now
};

struct Oom {
  int8_t core;
  int64_t at_ns, asked, used, limit;
  Frame frame;
  Holdings live;
};

// A weak reference: a session must not keep a model, and with it HBM, alive.
struct NamedModule {
  PyObject* reference;
  const std::string* path;
};

struct Session {
  ~Session(); // GIL held
  size_t capacity;
  std::deque<OpEvent> ops;
  std::deque<CopyEvent> copies;
  std::map<std::tuple<const OpInfo*, Kind, const Plan*, const char*, int8_t, PyCodeObject*, int, const std::string*, Phase>, OpTotal> op_totals;
  std::map<std::tuple<Direction, PyCodeObject*, int, const std::string*, Phase>, CopyTotal> copy_totals;
  std::deque<MemoryEvent> memory;
  std::map<int8_t, CoreUse> cores;
  std::map<std::pair<int8_t, Line>, int64_t> line_peaks; // the highest use after the line took something
  std::unordered_map<const Block*, Line> blocks; // taken in the session and alive
  std::vector<Oom> ooms; // the first few
  std::set<PyCodeObject*> codes; // strong references to every code object named above
  std::set<std::string> paths; // every module path named above
  std::unordered_map<PyObject*, NamedModule> modules;
  PyThreadState* owner = nullptr; // of the thread that opened the session
  int64_t syncs = 0, dropped = 0, dropped_changes = 0, check_ns = 0;
};

// Off the hot path when no session runs: one relaxed load. Sessions are added and removed, and events pushed, with the
// GIL held, which every op takes anyway; copies take it only while a session runs.
extern std::atomic<int> g_sessions;
inline bool recording() {
  return g_sessions.load(std::memory_order_relaxed) > 0;
}
std::shared_ptr<Session> open_session(size_t capacity);

// `dropped` counts what no longer fits.
template <class Event>
void append(const Session& session, std::deque<Event>& ring, const Event& event, int64_t& dropped) {
  if (ring.size() == session.capacity) {
    ring.pop_front();
    dropped++;
  }
  ring.push_back(event);
}

void close_session(const std::shared_ptr<Session>& session);
void each_session(const std::function<void(Session&)>& visit); // GIL held
void push(const OpEvent& event);
void push_into(Session& session, OpEvent event);
void push(const CopyEvent& event);
// For torch.profiler: returns at once while none is open. Called with what is pushed, in the thread that did it.
void profile(const OpEvent& event);
void profile(const CopyEvent& event);
// Called by the allocator, with or without the GIL.
void record_taken(const Block& block);
void record_given_back(const Block& block);
void record_oom(c10::DeviceIndex core, int64_t asked);
void count_sync(); // a device -> host read that the program waited for; always counted

} // namespace neuron
