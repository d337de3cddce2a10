"""Recording through nothing but PyTorch's dispatcher and TorchNeuron's public surface: what a device without a fast hook gets.

Every op is waited for, and what the surface does not tell (why an op fell back, the parts of a compile) stays unknown.

On the emulator it gives the table that the fast hook gives (tests/conformance/test_recorders.py), but for this:

- What PyTorch does with all dispatch modes switched off is not seen: printing a tensor, the copy in `torch.tensor(data, device=...)`.
- While a mode is on, PyTorch itself takes another op here and there: gradients and attention masks are added out of place.
- A copy that a kernel makes inside itself (the mask of a dropout, drawn on the host) passes no dispatcher.
- The launch of a compiled graph is seen where it goes by `torch_neuronx._C.execute_compiled_graph`; its input copies are not.
- HBM over time, 64-bit values and starting the compiler are not recorded; of an op's bytes, not what its schema hides (the running
  statistics of a batch norm).
- Threads that ran before the session, or that a thread of theirs starts, are not seen.
- A fallback is told by the name being among those that have fallen back: of an op that does so only for some values, each call
  that used no NEFF counts as one.
"""

from __future__ import annotations

from neuron_lab.device.generic._hook import Hook, hook

__all__ = ["Hook", "hook"]
