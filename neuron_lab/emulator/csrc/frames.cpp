// Whose line made an op call: the nearest frame of the user's own code. Only while a session records.
#include "events.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <frameobject.h>

namespace py = pybind11;

namespace neuron {

PyObject* g_is_user_file = nullptr; // (file name) -> bool; strong, set once

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
  if (g_is_user_file) {
    PyObject* answer = PyObject_CallOneArg(g_is_user_file, code->co_filename);
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

} // namespace

Frame user_frame(PyThreadState* owner) {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  // Autograd's threads run no Python: the line that waits for them in the recording thread is the caller's.
  if (!frame && owner && is_alive(owner))
    frame = PyThreadState_GetFrame(owner);
  Frame out;
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame); // new reference
    if (is_user_code(code)) {
      out.code = code;
      out.line = PyFrame_GetLineNumber(frame);
      Py_DECREF(frame);
      return out;
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return out;
}

} // namespace neuron
