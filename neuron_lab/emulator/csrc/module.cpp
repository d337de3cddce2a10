// The Python face of the shim: neuron_lab.emulator's `_C`.
#include "dispatch.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace neuron {

void* library_dot();
void register_device();
void register_ops();
void bind_graphs(py::module_& m);
void register_profiler();
void record_history(size_t capacity, bool frames_of_blocks, bool frames_of_entries, bool clear);
py::tuple history_snapshot();

namespace {

PyObject* keep(py::object object) {
  return object.release().ptr();
}

py::dict memory(c10::DeviceIndex core) {
  CoreStats& s = core_stats(core);
  py::dict out;
  out["current"] = s.current.load();
  out["peak"] = s.peak.load();
  out["allocated"] = s.allocated.load();
  out["freed"] = s.freed.load();
  out["alloc_count"] = s.alloc_count.load();
  out["free_count"] = s.free_count.load();
  out["live_blocks"] = s.live_blocks.load();
  out["peak_blocks"] = s.peak_blocks.load();
  out["ooms"] = s.ooms.load();
  return out;
}

const char* kind_name(Kind kind) {
  constexpr const char* names[] = {"compiled", "fallback", "host", "empty", "decomposed"};
  return names[int(kind)];
}

py::object neff_of(const Plan* plan) {
  return plan && plan->kind == Kind::compiled ? py::object(py::str(plan->neff)) : py::object(py::none());
}

// (file, first line of the function, function, line), or None when no frame was the user's.
py::object where(const PyCodeObject* code, int line) {
  if (!code)
    return py::none();
  return py::make_tuple(py::handle(code->co_filename), code->co_firstlineno, py::handle(code->co_qualname), line);
}

py::object module_name(const std::string* path) {
  return path ? py::object(py::str(*path)) : py::object(py::none());
}

constexpr const char* kPhases[] = {"forward", "backward", "optimizer"};
constexpr const char* kDirections[] = {"h2d", "d2h", "d2d"};

// [(where, bytes, blocks), ...]
py::list holdings(const Holdings& held) {
  py::list out;
  for (auto& [line, amount] : held)
    out.append(py::make_tuple(where(line.first, line.second), amount.bytes, amount.blocks));
  return out;
}

void drain_memory(const Session& session, py::dict& out) {
  py::list events, peaks, line_peaks, ooms;
  for (const MemoryEvent& e : session.memory)
    events.append(py::make_tuple(int(e.core), e.at_ns, e.change, e.used, where(e.frame.code, e.frame.line)));
  for (auto& [core, use] : session.cores)
    peaks.append(py::make_tuple(int(core), use.peak_ns, use.peak, holdings(use.at_peak ? *use.at_peak : use.live)));
  for (auto& [key, used] : session.line_peaks)
    line_peaks.append(py::make_tuple(int(key.first), used, where(key.second.first, key.second.second)));
  for (const Oom& e : session.ooms)
    ooms.append(py::make_tuple(int(e.core), e.at_ns, e.asked, e.used, e.limit, where(e.frame.code, e.frame.line), holdings(e.live)));
  out["memory"] = events;
  out["dropped_changes"] = session.dropped_changes;
  out["peaks"] = peaks;
  out["line_peaks"] = line_peaks;
  out["ooms"] = ooms;
}

py::dict drain(const Session& session) {
  py::list ops, totals, wide, copies, copy_totals;
  for (const OpEvent& e : session.ops)
    ops.append(py::make_tuple(e.op->name, kind_name(e.kind), neff_of(e.plan), int(e.core), e.thread, e.start_ns, e.end_ns, e.device_ns, e.bytes, e.cold, where(e.frame.code, e.frame.line)));
  for (auto& [key, t] : session.op_totals) {
    auto& [op, kind, plan, refusal, core, code, line, module, phase] = key;
    const std::string reason = refusal ? refusal : plan && !plan->reason.empty() ? plan->reason : op->reason;
    totals.append(py::make_tuple(op->name, kind_name(kind), neff_of(plan), int(core), t.calls, t.cold, t.total_ns, t.device_ns, t.bytes, where(code, line), module_name(module), kPhases[int(phase)], reason));
    if (plan && (plan->wide_integers || plan->wide_floats))
      wide.append(py::make_tuple(op->name, plan->wide_integers, plan->wide_floats, t.calls, t.beyond_32_bits, where(code, line)));
  }
  for (const CopyEvent& e : session.copies)
    copies.append(py::make_tuple(kDirections[int(e.direction)], int(e.core), e.start_ns, e.end_ns, e.bytes, where(e.frame.code, e.frame.line)));
  for (auto& [key, t] : session.copy_totals) {
    auto& [direction, code, line, module, phase] = key;
    copy_totals.append(py::make_tuple(kDirections[int(direction)], t.calls, t.total_ns, t.bytes, where(code, line), module_name(module), kPhases[int(phase)]));
  }
  py::dict out;
  out["ops"] = ops;
  out["totals"] = totals;
  out["wide"] = wide;
  out["copies"] = copies;
  out["copy_totals"] = copy_totals;
  out["syncs"] = session.syncs;
  out["dropped"] = session.dropped;
  out["check_ns"] = session.check_ns;
  drain_memory(session, out);
  return out;
}

py::list plan_entries() {
  py::list out;
  for (const Plan* plan : plans())
    out.append(py::make_tuple(plan->op->name, kind_name(plan->kind), plan->neff, plan->hits, plan->reason));
  return out;
}

py::list op_calls() {
  py::list out;
  for (const OpInfo* op : known_ops())
    if (op->calls)
      out.append(py::make_tuple(op->name, op->calls, op->fallback_calls));
  return out;
}

} // namespace

PYBIND11_MODULE(NEURON_LAB_MODULE, m) {
  py::class_<Session, std::shared_ptr<Session>>(m, "Session");
  m.def("start", [](c10::DeviceIndex cores, int64_t hbm_bytes) {
    set_core_count(cores);
    set_hbm_limit(hbm_bytes);
    keep_freed_pages();
    register_device();
    register_ops();
    register_profiler();
  });
  m.def("set_callbacks", [](py::object describe_op, py::object make_plan) {
    g_callbacks.describe_op = keep(std::move(describe_op));
    g_callbacks.make_plan = keep(std::move(make_plan));
  });
  bind_graphs(m);
  m.def("set_frame_rules", [](py::object is_user_file, py::object name_modules, py::object module_call, py::list optimizer) {
    g_frame_rules = {keep(std::move(is_user_file)), keep(std::move(name_modules)), keep(std::move(module_call))};
    for (py::handle code : optimizer)
      g_frame_rules.optimizer.push_back(code.inc_ref().ptr());
  });
  m.def("set_runtime", [](py::object import_dlpack, py::object device) {
    g_callbacks.import_dlpack = keep(std::move(import_dlpack));
    g_callbacks.device = keep(std::move(device));
  });
  m.def("give_back_freed_pages", &give_back_freed_pages, py::call_guard<py::gil_scoped_release>());
  m.def("library", [] { // by name what executables call, as XLA wants to be given it
    py::dict out;
    out["neuron_dot"] = py::capsule(library_dot());
    return out;
  });
  m.def("current_core", [] { return int(current_core()); });
  m.def("set_core", [](int core) { set_current_core(c10::DeviceIndex(core)); });
  m.def("core_count", [] { return int(core_count()); });
  m.def("hbm_limit", &hbm_limit);
  m.def("set_hbm_limit", &set_hbm_limit);
  m.def("memory", &memory);
  m.def("count_busy", [](bool wanted) { g_count_busy = wanted; });
  m.def("busy_ns", &busy_ns);
  m.def("reset_peak", &reset_peak);
  m.def("reset_accumulated", &reset_accumulated);
  m.def("record_history", &record_history);
  m.def("history_snapshot", &history_snapshot);
  m.def("now_ns", &now_ns);
  m.def("step_clock", [](int64_t step) {
    stepped_ns = now_ns();
    clock_step = step;
  });
  m.def("pass_time", [](int64_t ns) { stepped_ns += ns; });
  m.def("open_session", &open_session);
  m.def("close_session", &close_session);
  m.def("drain", &drain);
  m.def("record_idle_events", [](int64_t count) { // what recording costs: the clock reads and the push of `count` op calls
    auto session = std::make_shared<Session>();
    session->capacity = size_t(count);
    for (int64_t i = 0; i < count; ++i) {
      OpEvent event{nullptr, now_ns()};
      event.device_ns = now_ns() - event.start_ns;
      event.end_ns = now_ns();
      push_into(*session, event);
    }
  });
  m.def("plans", &plan_entries);
  m.def("clear_plans", &clear_plans);
  m.def("set_plans_aside", &set_plans_aside);
  m.def("put_plans_back", &put_plans_back);
  m.def("launches_of_cleared_plans", &launches_of_cleared_plans);
  m.def("op_calls", &op_calls);
  m.def("clear_op_calls", [] {
    for (OpInfo* op : known_ops())
      op->calls = op->fallback_calls = 0;
  });
  m.def("forbid_after_fork", &forbid_after_fork);
}

} // namespace neuron
