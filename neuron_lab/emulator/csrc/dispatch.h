// The eager road: signature key -> plan -> run. Everything here is touched with the GIL held.
#pragma once

#include "events.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <deque>
#include <unordered_map>

namespace neuron {

// How calls of one overload are served; decided once per overload by dispatch.py.
enum class Route : int8_t { compile, host, fallback };

// One index argument of an op; positions in its schema, -1 for none. From _indices.py.
struct IndexRule {
  int index, of, dim, dim_argument, size_argument, ignore_argument;
  bool negative, flat, offsets;
};

struct OpInfo {
  std::string name; // "aten::add.Tensor"
  Route route = Route::compile;
  std::string reason; // for Route::host and Route::fallback
  std::vector<bool> lifted; // per argument: a Scalar that becomes an input instead of a part of the key
  std::vector<bool> written; // per argument: the op writes to this tensor
  bool takes_host_tensors = false; // e.g. index tensors may stay on the CPU
  bool skips_empty_inputs = false;
  bool writes = false; // to any argument
  bool number_is_element = false, divides = false;
  bool bumps_versions = false; // of what it writes, which are lists
  bool casts = false; // between dtypes: on TorchNeuron to and from 64 bits on the CPU
  std::vector<IndexRule> index_rules;
  int64_t calls = 0, fallback_calls = 0; // since clear_op_tracking
};

// One tensor, or one number that became an input, in the order of the arguments (lists flattened).
struct Leaf {
  const at::Tensor* original = nullptr; // what the caller passed; nullptr for numbers
  const at::Tensor* source = nullptr; // whose memory is imported: `original`, or a dense or uploaded copy
  at::ScalarType dtype = at::kFloat;
  Shape shape; // of the buffer, slowest dimension first
  Shape layout; // logical dimensions in buffer order; unused when contiguous
  bool contiguous = true, wrapped = false, number = false, written = false;
  bool scalar = false; // a 0-d host tensor
  alignas(16) char bits[16] = {}; // the value of a number
};

struct Call {
  std::string key;
  c10::SmallVector<Leaf, 6> leaves;
  std::deque<at::Tensor> copies; // keeps addresses stable
  c10::DeviceIndex core = -1;
  bool any_empty = false;
  bool any_input = false; // a non-empty device tensor that the op reads
  int64_t bytes = 0;
};

struct Result {
  at::ScalarType dtype;
  Shape sizes, strides, shape; // logical sizes and strides; `shape` is the buffer's
  int64_t nbytes;
};

struct Return {
  enum class From : int8_t { result, leaf, none, list, value } from;
  int64_t index = 0;
  std::vector<Return> items;
};

struct Plan {
  const OpInfo* op = nullptr;
  Kind kind = Kind::compiled;
  PyObject* launch = nullptr; // strong; plans live as long as the process or until the cache is cleared
  std::vector<int64_t> inputs;
  std::vector<Result> results;
  std::vector<std::pair<int64_t, int64_t>> writes;
  std::vector<Return> returns;
  std::string neff, reason;
  int64_t result_bytes = 0, hits = 0;
  bool wide_integers = false, wide_floats = false; // it reads or gives 64-bit tensors: what TorchNeuron computes in 32 bits
};

// A graph compiled as one executable. It lives as long as the process: a recording session may point at it.
struct Graph {
  OpInfo info; // its name stands where an op's would
  std::unique_ptr<Plan> plan;
  std::vector<Leaf> inputs; // the layout each input was compiled for
};
std::vector<c10::IValue> run_graph(Graph& graph, const std::vector<at::Tensor>& inputs);

Plan* plan_for(const c10::OperatorHandle& op, const OpInfo& info, const Call& call, const torch::jit::Stack& stack, bool& cold);

// Run an executable and push what it returns. `event`, when somebody records, learns how that went.
void launch(const Plan& plan, const Call& call, torch::jit::Stack* stack, size_t arity, OpEvent* event);

// Which 64-bit dtypes a plan reads and gives.
void find_wide(Plan& plan, const Leaf* leaves);
// Whether a value that a call read or gave leaves the range of 32 bits. Looks at all of them.
bool beyond_32_bits(const Plan& plan, const Call& call, PyObject* arrays);

OpInfo& info_of(const c10::OperatorHandle& op);
std::vector<OpInfo*> known_ops();
void run(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);
void run_shown_as(const c10::OperatorHandle& op, OpInfo& shown, torch::jit::Stack* stack);

// Describe a call: fills key and leaves, checks devices.
// Whether argument `i` becomes an input in this call. A number that has its default value (alpha=1) stays a part of the key:
// the common case then has one input less.
bool lifts(const OpInfo& info, const c10::FunctionSchema& schema, size_t i, const c10::IValue& value);
void describe(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& stack, Call& call);
// The layout of a tensor's buffer; false when it has gaps or overlaps, `layout` and `shape` then name the dense copy to make.
bool buffer_layout(const at::Tensor& tensor, Leaf& leaf);

// Why the values of this call are such that the executable might not give what the CPU gives; nullptr when they are not.
const char* left_to_cpu(const OpInfo& info, const Call& call, const c10::IValue* arguments);

// The XLA array over a leaf's memory. Borrowed from its block or the number cache, or new and then put into `owned`.
PyObject* array_of(const Leaf& leaf, std::vector<PyObject*>& owned);
at::Tensor wrap_result(const Result& result, PyObject* array, c10::DeviceIndex core);
void* array_data(PyObject* array);
// As memcpy; in parallel when that pays.
void copy_bytes(void* to, const void* from, int64_t count);

// Run the op's CPU kernel on aliases of the device memory.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DeviceIndex core);

// Callbacks into dispatch.py and the handles of jaxlib it hands over; strong references, set once.
struct Callbacks {
  PyObject* describe_op = nullptr;
  PyObject* make_plan = nullptr;
  PyObject* import_dlpack = nullptr;
  PyObject* device = nullptr; // the XLA device
};
extern Callbacks g_callbacks;
void clear_plans();
void set_plans_aside();
void put_plans_back();
int64_t launches_of_cleared_plans(); // warm ones
std::vector<const Plan*> plans(); // of ops and of graphs

[[noreturn]] void throw_python_error();

} // namespace neuron
