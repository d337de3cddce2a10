// Whose line made an op call, the nearest frame of the user's own code, and in which module and phase. Only while a session records.
#include "events.h"

#include <c10/core/GradMode.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/graph_task.h>

#include <frameobject.h>

#include <algorithm>

namespace py = pybind11;

namespace neuron {

FrameRules g_frame_rules;

namespace {

// Code objects are kept alive by their session, so the pointers stay valid for as long as this cache is believed. A code object
// that died elsewhere could leave its address to another: the file name is compared, by identity, before the answer is used.
struct Seen {
  PyObject* file;
  bool user;
};
std::unordered_map<PyCodeObject*, Seen> g_seen; // GIL held

bool is_user_code(PyCodeObject* code) {
  auto found = g_seen.find(code);
  if (found != g_seen.end() && found->second.file == code->co_filename)
    return found->second.user;
  bool user = false;
  if (g_frame_rules.is_user_file) {
    PyObject* answer = PyObject_CallOneArg(g_frame_rules.is_user_file, code->co_filename);
    if (answer)
      user = PyObject_IsTrue(answer) == 1;
    else
      PyErr_Clear(); // a frame that cannot be judged is not the user's; the op itself must not fail for it
    Py_XDECREF(answer);
  }
  if (found == g_seen.end())
    Py_INCREF(code->co_filename); // so that the identity above means something
  g_seen[code] = {code->co_filename, user};
  return user;
}

// The thread that opened a session may have ended since.
bool is_alive(PyThreadState* wanted) {
  for (PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); state; state = PyThreadState_Next(state))
    if (state == wanted)
      return true;
  return false;
}

// The caller's frame in place of `frame`.
void step_out(PyFrameObject*& frame) {
  PyFrameObject* back = PyFrame_GetBack(frame);
  Py_DECREF(frame);
  frame = back;
}

// The `self` of a module's call, a new reference.
PyObject* self_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030C0000
  static PyObject* name = PyUnicode_InternFromString("self");
  PyObject* self = PyFrame_GetVar(frame, name);
#else
  PyObject* locals = PyFrame_GetLocals(frame);
  PyObject* self = locals ? PyDict_GetItemString(locals, "self") : nullptr;
  Py_XINCREF(self);
  Py_XDECREF(locals);
#endif
  if (!self)
    PyErr_Clear();
  return self;
}

// The modules whose calls are open, from `frame`, which is one, outwards.
py::list callers_of(PyFrameObject* frame) {
  py::list callers;
  for (Py_INCREF(frame); frame; step_out(frame)) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (reinterpret_cast<PyObject*>(code) == g_frame_rules.module_call)
      if (PyObject* self = self_of(frame))
        callers.append(py::reinterpret_steal<py::object>(self));
    Py_DECREF(code);
  }
  return callers;
}

void name_modules(Session& session, PyFrameObject* frame) {
  try {
    const py::object named = py::reinterpret_borrow<py::object>(g_frame_rules.name_modules)(callers_of(frame));
    for (py::handle item : named) {
      const auto entry = py::cast<py::tuple>(item);
      const std::string* path = &*session.paths.insert(py::cast<std::string>(entry[1])).first;
      PyObject* reference = PyWeakref_NewRef(py::object(entry[0]).ptr(), nullptr);
      if (!reference)
        throw py::error_already_set();
      NamedModule& slot = session.modules[py::object(entry[0]).ptr()];
      Py_XDECREF(slot.reference);
      slot = {reference, path};
    }
  } catch (py::error_already_set&) { // a module that cannot be named has no path; the op itself must not fail for it
  }
}

// Where it lives a module may have followed one that died.
const std::string* known_path(const Session& session, PyObject* module) {
  auto found = session.modules.find(module);
  return found != session.modules.end() && PyWeakref_GetObject(found->second.reference) == module ? found->second.path : nullptr;
}

const std::string* path_of(Session& session, PyFrameObject* frame) {
  PyObject* module = self_of(frame);
  if (!module)
    return nullptr;
  const std::string* path = known_path(session, module);
  if (!path) {
    name_modules(session, frame);
    path = known_path(session, module);
  }
  Py_DECREF(module);
  return path;
}

bool is_optimizer(PyObject* code) {
  const auto& codes = g_frame_rules.optimizer;
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

// Where a recording thread stands: while autograd's threads work, in the line that waits for them.
PyFrameObject* waiting(PyThreadState* owner) {
  return owner && owner != PyThreadState_Get() && is_alive(owner) ? PyThreadState_GetFrame(owner) : nullptr;
}

} // namespace

Frame user_frame(Session& session, Look look) {
  constexpr int kBeyond = 16; // frames looked at past the user's line, for the module that it runs in
  Frame out;
  if (torch::autograd::get_current_graph_task_id() >= 0)
    out.phase = Phase::backward;
  bool looking = look == Look::all && g_frame_rules.module_call;
  int beyond = 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  bool waits = !frame || out.phase == Phase::backward; // autograd's threads run no Python, or that of libraries alone
  for (;; step_out(frame)) {
    if (!frame && waits && !out.code) {
      frame = waiting(session.owner);
      waits = false;
    }
    if (!frame || (out.code && !(looking && beyond < kBeyond)))
      break;
    PyCodeObject* code = PyFrame_GetCode(frame); // new reference
    PyObject* same = reinterpret_cast<PyObject*>(code);
    beyond += out.code != nullptr;
    if (looking && same == g_frame_rules.module_call) {
      out.module = path_of(session, frame);
      looking = false;
    } else if (looking && is_optimizer(same)) {
      // A step's closure is the user's, with gradients on; a step of the user's own has them off.
      if (out.phase == Phase::forward && (!out.code || !c10::GradMode::is_enabled()))
        out.phase = Phase::optimizer;
      looking = false;
    }
    if (!out.code && is_user_code(code)) {
      out.code = code;
      out.line = PyFrame_GetLineNumber(frame);
      if (session.codes.insert(code).second)
        continue; // the session's reference
    }
    Py_DECREF(code);
  }
  Py_XDECREF(frame);
  return out;
}

} // namespace neuron
